// The HTTP API of this server. What it refuses becomes an ApiError with the server's words and its hint.

export class ApiError extends Error {
  constructor(message, hint = null) {
    super(message);
    this.hint = hint;
  }
}

const GONE = new ApiError("The server does not answer.", "Is `regiontalk serve` still running?");
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function request(path, options = {}, tries = 4) {
  const answer = await fetch(path, options).catch((error) => {
    throw error.name === "AbortError" ? error : GONE;
  });
  if (answer.status === 503 && tries > 1) { // it is busy, and says for how long
    await pause(Number(answer.headers.get("Retry-After")) || 1);
    return request(path, options, tries - 1);
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ApiError(body.error ?? `The server answered with ${answer.status}.`, body.hint);
  return body;
}

const get = (path, parameters = {}, options = {}) => request(`${path}?${new URLSearchParams(parameters)}`, options);

/** A photo is {file} that was dropped, or {id} of one in the index. */
function post(path, photo, fields = {}, options = {}) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  if (photo.file) body.append("photo", photo.file, photo.file.name || "photo");
  else body.append("id", photo.id);
  return request(path, { method: "POST", body, ...options });
}

export const health = () => get("/api/health", {}, { cache: "no-store" });
export const photos = (parameters, options) => get("/api/photos", parameters, options);
export const photo = (id, options) => get(`/api/photos/${encodeURIComponent(id)}`, {}, options);
export const image = (id) => `/api/photos/${encodeURIComponent(id)}/image?size=1600`;
export const largeImage = (id) => `/api/photos/${encodeURIComponent(id)}/image?size=4096`;
export const thumbnail = (id) => `/api/photos/${encodeURIComponent(id)}/thumbnail`;
export const video = (id) => `/api/photos/${encodeURIComponent(id)}/video`;
export const file = (id) => `/api/photos/${encodeURIComponent(id)}/file`;
export const search = (parameters, options) => get("/api/search", parameters, options);
export const like = (one, xyxy, fields, options) => post("/api/like", one, { xyxy: xyxy.join(), ...fields }, options);
export const caption = (one, options) => post("/api/caption", one, {}, options);
export const describe = (one, options) => post("/api/describe", one, {}, options);
export const align = (one, sentence, options) => post("/api/align", one, { sentence }, options);
export const locate = (one, phrase, options) => post("/api/find", one, { phrase }, options);

/** Saves corrected regions, as a record that `regiontalk train` takes. */
export function save(one, regions) {
  if (one.file) return post("/api/records", one, { regions: JSON.stringify(regions) });
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ regions });
  return request(`/api/photos/${encodeURIComponent(one.id)}/regions`, { method: "PUT", headers, body });
}

/** Deletes the correction of a photo of the folder. */
export const forget = ({ id }) => request(`/api/photos/${encodeURIComponent(id)}/correction`, { method: "DELETE" });

export const teach = (one, xyxy, word, shows) => post("/api/teach", one, { xyxy: xyxy.join(), word, shows });
export const words = () => get("/api/words");
export const unsure = (top) => get("/api/unsure", { top });

/** Whether the server has a route; an older one may lack some. */
export async function has(path) {
  const { paths = {} } = await get("/openapi.json").catch(() => ({}));
  return path in paths;
}
