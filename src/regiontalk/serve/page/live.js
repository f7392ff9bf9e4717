// The camera, with captions drawn on it as it goes. One picture at a time is looked at; those that the camera gives
// meanwhile are dropped.

import { colour, element, find, hedged, makeBox, placeBox } from "./regions.js";
import { follow } from "./tracks.js";

const SENT_SIDE = 320; // pixels of the long side: what the server looks at
const QUALITY = 0.85; // of the JPEG that is sent
const PAUSE = 1000; // milliseconds until the next try, when the server is busy or gone
const LABEL_SHARE = 1 / 32; // height of a label in a saved picture

const PROBLEMS = {
  NotAllowedError: "The camera was refused. Allow it beside the page's address, then try again.",
  NotFoundError: "There is no camera. Connect one, then try again.",
  NotReadableError: "The camera is used by another program. Close that program, then try again.",
};
const GONE = "The camera is gone. Connect it, then try again.";
const NOT_SECURE = "Browsers give a camera only to pages of the same machine or over HTTPS, and this page is neither. Open "
  + "http://localhost:PORT/live on the machine that runs RegionTalk, or put HTTPS before it.";

const camera = find("camera"), view = find("view"), boxes = find("boxes"), frozen = find("frozen");
const sent = document.createElement("canvas");
let taken = document.createElement("canvas"); // the picture that is being looked at, whole
let answered = null; // {picture, regions} of the last answer
let tracks = [];
let elements = new Map(); // number of a track -> its box
let isFrozen = false;
let run = 0; // of the loop; a new one ends those before
let answers = 0;

function complain(text) {
  find("problem").textContent = text;
  find("problem").hidden = !text;
}

const say = (text) => { find("status").textContent = text; };

// --- the camera

async function start(facing = "environment") {
  stop();
  complain("");
  find("again").hidden = true;
  if (!isSecureContext || !navigator.mediaDevices) return fail(NOT_SECURE.replace("PORT", location.port || "80"));
  try {
    const wanted = { facingMode: facing, width: { ideal: 1280 }, height: { ideal: 720 } };
    camera.srcObject = await navigator.mediaDevices.getUserMedia({ video: wanted, audio: false });
    for (const track of camera.srcObject.getVideoTracks()) track.addEventListener("ended", () => { stop(); fail(GONE); });
    await camera.play();
  } catch (error) {
    return fail(PROBLEMS[error.name] ?? `The camera cannot be used: ${error.message}`);
  }
  view.hidden = false;
  const devices = await navigator.mediaDevices.enumerateDevices();
  find("turn").hidden = devices.filter(({ kind }) => kind === "videoinput").length < 2;
  find("turn").dataset.facing = facing === "user" ? "environment" : "user";
  freeze(false);
  look(run += 1);
}

function stop() {
  run += 1;
  for (const track of camera.srcObject?.getTracks() ?? []) track.stop();
  camera.srcObject = null;
}

function fail(text) {
  complain(text);
  say("");
  find("again").hidden = false;
  find("freeze").disabled = true;
}

// --- looking

const nextPicture = () => new Promise((resolve) => {
  if (camera.requestVideoFrameCallback) camera.requestVideoFrameCallback(resolve);
  else requestAnimationFrame(resolve);
});
const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/** Copies what the camera shows now; the JPEG is smaller. */
function take() {
  const { videoWidth: width, videoHeight: height } = camera;
  const scale = Math.min(1, SENT_SIDE / Math.max(width, height));
  resize(taken, width, height).drawImage(camera, 0, 0);
  const [smallWidth, smallHeight] = [width, height].map((side) => Math.max(1, Math.round(side * scale)));
  resize(sent, smallWidth, smallHeight).drawImage(taken, 0, 0, smallWidth, smallHeight);
  return new Promise((resolve) => { sent.toBlob(resolve, "image/jpeg", QUALITY); });
}

function resize(canvas, width, height) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  return canvas.getContext("2d");
}

async function ask(picture) {
  const body = new FormData();
  body.append("photo", picture, "camera.jpg");
  const answer = await fetch("/api/live", { method: "POST", body });
  const found = await answer.json();
  if (!answer.ok) throw new Error([found.error, found.hint].filter(Boolean).join("; "));
  return found;
}

async function look(own) {
  let began = performance.now();
  while (own === run) {
    await nextPicture();
    if (own !== run) return;
    if (isFrozen || !camera.videoWidth) {
      await pause(100);
      continue;
    }
    try {
      const found = await ask(await take());
      if (own !== run || isFrozen) continue;
      complain("");
      show(found);
      say(`${(1000 / (performance.now() - began)).toFixed(1)} pictures a second`);
    } catch (error) {
      if (own === run) complain(`No answer: ${error.message}`);
      await pause(PAUSE);
    }
    began = performance.now();
  }
}

/** Regions in pixels of the whole picture; the answer's are in those of the small one. */
function show({ regions, width }) {
  const scale = taken.width / width;
  const seen = regions.filter(({ shown }) => shown)
    .map(({ xyxy, caption, sure }) => ({ xyxy: xyxy.map((side) => side * scale), caption, sure }));
  [answered, taken] = [{ picture: taken, regions: seen }, answered?.picture ?? document.createElement("canvas")];
  tracks = follow(tracks, seen);
  draw(tracks);
  find("freeze").disabled = find("save").disabled = false;
  answers += 1;
  document.body.dataset.answers = answers; // for benchmarks/live.py
}

/** Boxes stay the elements that they are, so that they move. */
function draw(shown) {
  const size = answered.picture, drawn = new Map();
  for (const track of shown) {
    const box = elements.get(track.number) ?? makeBox(size, track, track.number);
    placeBox(box, size, track.xyxy);
    box.classList.toggle("unsure", !track.sure);
    const text = hedged(track.caption, track.sure);
    if (box.textContent !== text) box.replaceChildren(element("span", text, track.sure ? "tag" : "tag unsure"));
    if (!box.isConnected) boxes.append(box);
    drawn.set(track.number, box);
  }
  for (const [number, box] of elements) if (!drawn.has(number)) box.remove();
  elements = drawn;
  const captions = [...new Set(shown.map(({ caption, sure }) => hedged(caption, sure)))];
  const seen = find("seen");
  if (captions.join("\n") !== [...seen.children].map((item) => item.textContent).join("\n")) {
    seen.replaceChildren(...captions.map((caption) => element("li", caption)));
  }
}

// --- freeze, save, turn

function freeze(wanted) {
  isFrozen = wanted;
  find("freeze").textContent = wanted ? "Go on" : "Freeze";
  find("freeze").ariaPressed = String(wanted);
  frozen.hidden = !wanted;
  if (!wanted || !answered) return;
  const { picture, regions } = answered;
  resize(frozen, picture.width, picture.height).drawImage(picture, 0, 0);
  tracks = regions.map((region, number) => ({ ...region, number, missed: 0 }));
  draw(tracks);
  say("Frozen");
}

/** The picture of the last answer, with its boxes and captions. */
function drawWhole({ picture, regions }) {
  const whole = document.createElement("canvas");
  const pencil = resize(whole, picture.width, picture.height);
  const height = Math.max(14, Math.round(picture.height * LABEL_SHARE));
  pencil.drawImage(picture, 0, 0);
  Object.assign(pencil, { font: `${Math.round(0.75 * height)}px sans-serif`, textBaseline: "middle", lineWidth: height / 8 });
  regions.forEach(({ xyxy: [x0, y0, x1, y1], caption, sure }, number) => {
    const text = hedged(caption, sure), paint = sure ? colour(number) : "#b8b8b8";
    pencil.strokeStyle = pencil.fillStyle = paint;
    pencil.strokeRect(x0, y0, x1 - x0, y1 - y0);
    pencil.fillRect(x0, y0, pencil.measureText(text).width + height / 2, height);
    pencil.fillStyle = "#111";
    pencil.fillText(text, x0 + height / 4, y0 + height / 2);
  });
  return whole;
}

function save() {
  drawWhole(answered).toBlob((picture) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(picture);
    link.download = `regiontalk-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.jpg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), PAUSE);
  }, "image/jpeg", 0.92);
}

find("freeze").addEventListener("click", () => freeze(!isFrozen));
find("save").addEventListener("click", save);
find("turn").addEventListener("click", ({ target }) => start(target.dataset.facing));
find("again").addEventListener("click", () => start());
start();
