// Photos side by side: all of them, those that show what was searched for, or those with a region like another.

import * as api from "./api.js";
import { baseName, colour, element, find, makeBox, percent, placeBox, plural } from "./regions.js";
import { complain, say, server } from "./status.js";

const PAGE = 60; // photos at a time
const cards = find("cards"), more = find("more");
let asked = null; // the route that is shown
let shown = []; // its photos
let pending = new AbortController();

export const ids = () => shown.map(({ id }) => id);

/** Shows what a route asks for, unless it is there already. */
export async function show(route, again = false) {
  if (asked?.key === route.key && !again) return;
  asked = route;
  shown = [];
  cards.replaceChildren();
  cards.className = "";
  for (const note of ["found", "unknown"]) find(note).textContent = "";
  find("none").hidden = true;
  find("filters").hidden = route.kind !== "search";
  find("filters").open = Boolean(route.folder || route.after || route.before);
  find("welcome").hidden = route.kind !== "all";
  find("title").textContent = TITLES[route.kind](route);
  find("heading").hidden = route.kind === "all" && !server.folder;
  showCrop(route);
  await load();
}

const TITLES = {
  all: () => "Your photos",
  search: ({ query }) => `“${query}”`,
  like: ({ caption }) => caption ? `Like this: ${caption}` : "Like this",
};

/** The region that others should be like. */
function showCrop({ kind, source, photo, xyxy }) {
  const crop = find("crop");
  crop.hidden = kind !== "like" || !photo;
  if (crop.hidden) return;
  const [x0, y0, x1, y1] = xyxy, picture = crop.firstElementChild;
  picture.src = source;
  const scale = 72 / Math.max(x1 - x0, y1 - y0); // pixels of the page per pixel of the photo
  Object.assign(crop.style, { width: `${scale * (x1 - x0)}px`, height: `${scale * (y1 - y0)}px` });
  placeBox(picture, { width: x1 - x0, height: y1 - y0 }, [-x0, -y0, photo.width - x0, photo.height - y0]);
}

async function load() {
  pending.abort();
  const { signal } = pending = new AbortController();
  more.hidden = true;
  if (asked.kind === "all" && !server.folder) return;
  cards.ariaBusy = "true";
  if (asked.kind !== "all") say("Searching …");
  try {
    await LOADERS[asked.kind](asked, { signal });
  } catch (error) {
    complain(error);
  } finally {
    if (!signal.aborted) cards.ariaBusy = "false";
  }
}

const LOADERS = {
  async all(_, options) {
    fillPage(await api.photos(shown.length, PAGE, options));
  },
  async search({ query, folder, after, before }, options) {
    const filters = Object.entries({ folder, after, before }).filter(([, value]) => value);
    const answer = await api.search({ q: query, top: shown.length + PAGE, ...Object.fromEntries(filters) }, options);
    showHits(answer);
    const unknown = answer.unknown.map((word) => `“${word}”`).join(", ");
    if (unknown) find("unknown").textContent = `The model does not know ${unknown}, and searched without it.`;
  },
  async like({ photo, xyxy }, options) {
    if (!photo) throw new api.ApiError("That photo is no longer here.", "Drop it again, and click the region.");
    showHits(await api.like(photo, xyxy, shown.length + PAGE, options));
  },
};

function fillPage({ total, photos }) {
  append(photos, captionLine);
  more.hidden = shown.length >= total || photos.length === 0;
  find("found").textContent = total ? plural(total, "photo") : "";
  find("none").hidden = total > 0;
  suggest();
  if (total) return;
  if (server.indexing) tell("Your photos are being looked at", "The first ones are here in a moment.");
  else tell("No photos yet", `RegionTalk found none in ${server.folder}.`);
}

function showHits({ hits, none_fit: none }) {
  const top = shown.length + PAGE;
  append(hits.slice(shown.length), wordLine);
  drawTheLine(hits);
  const total = shown.length;
  cards.className = total < 3 ? "fewer" : total < 7 ? "few" : ""; // then there is room for larger ones
  more.hidden = hits.length < top;
  const order = asked.kind === "like" ? "the most alike first" : "the likeliest first";
  find("found").textContent = total > 1 ? `${plural(total, "photo")}, ${order}` : total ? "1 photo" : "";
  say(none ? "Nothing like it here" : `${plural(total, "photo")} found`);
  const searched = server.indexing ? `${plural(server.photos, "photo")} so far` : plural(server.photos, "photo");
  if (none) tell("Nothing like it here", `None of your ${searched} is likely to show this.`);
}

// Photos that are less likely to be meant come last, below a line.
function drawTheLine(hits) {
  const first = hits.find((hit) => hit.likely === false);
  if (!first || cards.querySelector(".line")) return;
  const line = document.createElement("li");
  line.className = "line";
  line.textContent = "Less likely";
  cards.insertBefore(line, cards.children[shown.findIndex(({ id }) => id === first.id)]);
}

function tell(title, text) {
  find("none").hidden = false;
  find("none").firstElementChild.textContent = title;
  find("none").lastElementChild.textContent = text;
}

function append(photos, line) {
  const known = new Set(ids()); // the indexing goes on meanwhile: pages may overlap
  const fresh = photos.filter(({ id }) => !known.has(id));
  shown.push(...fresh);
  cards.append(...fresh.map((photo) => makeCard(photo, line(photo))));
}

// --- a card

function makeCard(photo, line) {
  const card = element("li"), link = element("a"), frame = element("div", "", "frame");
  const picture = new Image(), layer = element("div", "", "regions");
  const ratio = photo.width / photo.height, held = Math.min(2.2, Math.max(0.62, ratio));
  card.style.setProperty("--ratio", held);
  Object.assign(picture, { loading: "lazy", decoding: "async", alt: baseName(photo.path) });
  picture.src = api.thumbnail(photo.id);
  layer.append(...(photo.regions ?? []).map((region, number) => makeBox(photo, region, number)));
  frame.append(element("div"));
  // A very wide or tall photo has bars in its frame.
  Object.assign(frame.firstChild.style, { aspectRatio: ratio, [ratio > held ? "width" : "height"]: "100%" });
  frame.firstChild.append(picture, layer);
  link.href = `#photo=${encodeURIComponent(photo.id)}`;
  link.dataset.id = photo.id;
  const foot = element("small");
  foot.append(element("span", baseName(photo.path)));
  if (photo.words?.length) foot.append(percent(photo.score));
  link.append(frame, line, foot);
  link.addEventListener("pointerover", (event) => mark(link, event.target.dataset.region));
  link.addEventListener("pointerleave", () => mark(link, undefined));
  card.append(link);
  return card;
}

function captionLine({ captions }) {
  return element("p", [...new Set(captions)].join(" · ") || "–");
}

/** The words of the query in the colours of the regions that they found; or what the region is said to be. */
function wordLine({ words, regions }) {
  const line = element("p", words.length ? "" : regions.map(({ caption }) => caption).join(" · "), "words");
  words.forEach(({ word, region }, at) => {
    const last = line.lastElementChild;
    if (at && region === words[at - 1].region) last.textContent += ` ${word}`;
    else line.append(at ? " " : "", makeStretch(word, region, regions));
  });
  return line;
}

function makeStretch(word, region, regions) {
  const stretch = element("span", word, region === null ? "unknown-word" : "word");
  if (region === null) return stretch;
  stretch.dataset.region = region;
  stretch.style.setProperty("--colour", colour(region));
  stretch.title = regions[region].caption;
  return stretch;
}

/** Marks the region of the word that is pointed at. */
function mark(link, region) {
  link.classList.toggle("pointing", region !== undefined);
  link.querySelectorAll(".region").forEach((box, number) => box.classList.toggle("active", `${number}` === region));
}

// --- suggestions: what is often said of these photos

function suggest() {
  const counts = new Map();
  for (const caption of shown.flatMap(({ captions }) => [...new Set(captions)])) {
    if (caption.split(" ").length > 1) counts.set(caption, (counts.get(caption) ?? 0) + 1);
  }
  const worth = (caption) => counts.get(caption) + Math.min(4, caption.split(" ").length);
  const often = [...counts.keys()].sort((a, b) => worth(b) - worth(a)).slice(0, 6);
  find("tips").hidden = !often.length;
  find("suggestions").replaceChildren(...often.map((caption) => {
    const item = element("li"), link = element("a", caption, "button");
    link.href = `?${new URLSearchParams({ q: caption })}`;
    item.append(link);
    return item;
  }));
}

/** The index has changed: new photos are shown unless one has gone on down the page, and a search may find more. */
export async function refresh() {
  if (!asked || (shown.length >= PAGE && (server.indexing || scrollY > 0))) return;
  if (asked.kind !== "all") return server.indexing || show(asked, true);
  const focused = document.activeElement.dataset.id, page = await api.photos(0, PAGE).catch(() => null);
  if (!page || asked.kind !== "all") return;
  shown = [];
  cards.replaceChildren();
  fillPage(page);
  if (focused) cardOf(focused)?.focus({ preventScroll: true });
}

// --- moving about with the keyboard

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

/** The card to the left or right, or the nearest in the row above or below. */
export function moveFocus(key) {
  const links = [...cards.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (at < 0) return links[0];
  if (key in STEPS) return links[at + STEPS[key]];
  const middle = (one) => (one.getBoundingClientRect().left + one.getBoundingClientRect().right) / 2;
  const top = (one) => one.getBoundingClientRect().top, here = links[at];
  const beyond = links.filter((one) => key === "ArrowDown" ? top(one) > top(here) + 9 : top(one) < top(here) - 9);
  const row = key === "ArrowDown" ? beyond[0] : beyond.at(-1);
  const off = (one) => Math.abs(middle(one) - middle(here));
  return beyond.filter((one) => Math.abs(top(one) - top(row)) < 9).sort((a, b) => off(a) - off(b))[0];
}

export const cardOf = (id) => [...cards.querySelectorAll("a")].find((link) => link.dataset.id === id);

more.addEventListener("click", load);
new IntersectionObserver(([entry]) => { if (entry.isIntersecting && !more.hidden) load(); }, { rootMargin: "600px" })
  .observe(more.parentElement);
