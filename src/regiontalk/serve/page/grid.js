// Photos side by side: all of them, those that show what was searched for, or those with a region like another.

import * as api from "./api.js";
import { baseName, colour, element, find, hedged, makeBox, makeWords, percent, placeBox, plural } from "./regions.js";
import * as selection from "./selection.js";
import { complain, say, server } from "./status.js";

const PAGE = 60; // photos at a time
const PHOTOS_A_DAY = 4; // from so many on, each day has a header; else each month
const cards = find("cards"), more = find("more");
let asked = null; // the route that is shown
let shown = []; // its photos
let dated = ""; // the last header
let pending = new AbortController();

export const ids = () => shown.map(({ id }) => id);

/** Shows what a route asks for, unless it is there already. */
export async function show(route, again = false) {
  if (asked?.key === route.key && !again) return;
  if (!again) selection.clear();
  asked = route;
  empty();
  cards.className = "";
  for (const note of ["found", "unknown"]) find(note).replaceChildren();
  find("none").hidden = true;
  find("filters").hidden = !server.folder;
  find("filters").open = Boolean(route.folder || route.after || route.before);
  find("welcome").hidden = route.kind !== "all" || isNarrowed(route);
  find("title").textContent = TITLES[route.kind](route);
  find("heading").hidden = route.kind === "all" && !server.folder;
  showNarrowed(route);
  showCrop(route);
  await load();
}

function empty() {
  shown = [];
  dated = "";
  cards.replaceChildren();
}

const TITLES = {
  all: ({ caption }) => caption ? caption : "Your photos",
  search: ({ query }) => `“${query}”`,
  like: ({ what }) => what ? `Like this: ${what}` : "Like this",
};

/** The folder and dates of a route, as the API takes them. */
const filtersOf = (route) => Object.fromEntries(
  ["folder", "after", "before"].filter((name) => route[name]).map((name) => [name, route[name]]),
);
const isNarrowed = (route) => Boolean(route.caption) || Object.keys(filtersOf(route)).length > 0;

/** What the photos are narrowed to, each with a way to leave it out. */
function showNarrowed(route) {
  const given = { ...filtersOf(route), ...(route.caption ? { caption: route.caption } : {}) };
  const names = { folder: "in", after: "from", before: "until", caption: "shows" };
  find("narrowed").hidden = !Object.keys(given).length;
  find("narrowed").replaceChildren(...Object.entries(given).map(([name, value]) => {
    const link = element("a", `${names[name]} ${value} ✕`, "button"), without = new URLSearchParams(location.search);
    without.delete(name);
    link.href = `/?${without}`.replace(/\?$/, "");
    link.ariaLabel = `Without: ${names[name]} ${value}`;
    return link;
  }));
}

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
  showBusy(BUSY[asked.kind]);
  try {
    await LOADERS[asked.kind](asked, { signal });
  } catch (error) {
    if (error.name === "AbortError") return; // something else is loaded
    complain(error);
    if (!shown.length) tell("That did not work", `${error.message} ${error.hint ?? ""}`);
  } finally {
    if (!signal.aborted) showBusy("");
  }
}

const BUSY = { all: "Loading …", search: "Searching …", like: "Looking for others like it …" };

function showBusy(words) {
  cards.ariaBusy = `${Boolean(words)}`;
  find("busy").hidden = !words || shown.length > 0;
  find("busy").lastElementChild.textContent = words;
  if (words && asked.kind !== "all") say(words);
}

const LOADERS = {
  async all(route, options) {
    const narrowed = { ...filtersOf(route), ...(route.caption ? { caption: route.caption } : {}) };
    fillPage(await api.photos({ offset: shown.length, limit: PAGE, ...narrowed }, options));
  },
  async search(route, options) {
    const wanted = { q: route.query, top: shown.length + PAGE, ...filtersOf(route) };
    const answer = await api.search(route.exact ? { ...wanted, as_typed: "true" } : wanted, options);
    showHits(answer);
    explainWords(answer);
  },
  async like(route, options) {
    if (!route.photo) throw new api.ApiError("That photo is no longer here.", "Drop it again, and click the region.");
    const fields = { top: shown.length + PAGE, ...filtersOf(route) };
    showHits(await api.like(route.photo, route.xyxy, fields, options));
  },
};

/** How the words were read: typing mistakes with a way back, and what the server says of the others. */
function explainWords({ unknown, corrected = {}, notes = [] }) {
  const words = Object.values(corrected).map((word) => `“${word}”`).join(", ");
  const back = element("a", Object.keys(corrected).join(", "));
  back.href = `?${new URLSearchParams({ q: asked.query, exact: "1", ...filtersOf(asked) })}`;
  const unknowns = unknown.map((word) => `“${word}”`).join(", ");
  const others = notes.filter((note) => !note.startsWith("Showing ")).join(" ")
    || (unknowns && `The model does not know ${unknowns}.`);
  find("unknown").replaceChildren(
    ...(words ? [`Showing ${words}. Search for `, back, " instead. "] : []), shown.length ? others : "",
  );
  if (!others || shown.length) return;
  tell("Nothing to search for", others);
  say(others);
}

function fillPage({ total, photos }) {
  append(photos, captionLine);
  more.hidden = shown.length >= total || photos.length === 0;
  find("found").textContent = total ? plural(total, "photo") : "";
  find("none").hidden = total > 0;
  if (isNarrowed(asked)) sizeCards();
  else suggest();
  if (total) return;
  if (isNarrowed(asked)) tell("No photo here", "None of your photos fits all of these filters.");
  else if (server.indexing) tell("Your photos are being looked at", "The first ones are here in a moment.");
  else tell("No photos yet", `RegionTalk found none in ${server.folder}. Photos that you put there appear here.`);
}

const NONE_LIKELY = { search: "No likely photo", like: "Nothing alike" };

function showHits({ hits, none_fit: none }) {
  const top = shown.length + PAGE;
  append(hits.slice(shown.length), wordLine);
  drawTheLine(hits);
  sizeCards();
  more.hidden = hits.length < top;
  find("found").textContent = countHits(hits);
  say(none ? NONE_LIKELY[asked.kind] : `${plural(hits.filter(({ likely }) => likely !== false).length, "photo")} found`);
  if (none) tell(NONE_LIKELY[asked.kind], whyNone());
}

/** How many photos were found, and how many of them stand below the line. */
function countHits(hits) {
  const [order, less] = asked.kind === "like" ? ["the most alike first", "less alike"]
    : ["the likeliest first", "less likely"];
  const below = hits.filter(({ likely }) => likely === false).length, above = hits.length - below;
  const parts = above ? [above > 1 ? `${plural(above, "photo")}, ${order}` : "1 photo"] : [];
  return [...parts, ...(below ? [`${below.toLocaleString("en")} ${less}`] : [])].join(" · ");
}

/** Where there are few, there is room for larger ones. */
function sizeCards() {
  cards.className = shown.length < 3 ? "fewer" : shown.length < 7 ? "few" : "";
}

function whyNone() {
  const verb = asked.kind === "like" ? "has anything like it" : "is likely to show this";
  const below = shown.length ? ` Those below are less ${asked.kind === "like" ? "alike" : "likely"}.` : "";
  if (isNarrowed(asked)) return `None of the photos that fit the filters ${verb}.${below}`;
  if (!server.photos) return "No photo can be searched yet.";
  const searched = plural(server.photos, "photo");
  return `None of ${server.indexing ? `the ${searched} that are ready` : `your ${searched}`} ${verb}.${below}`;
}

// Photos that are less likely to be meant come last, below a line.
function drawTheLine(hits) {
  const first = hits.find((hit) => hit.likely === false);
  if (!first || cards.querySelector(".line")) return;
  const words = asked.kind === "like" ? "Less alike" : "Less likely";
  cards.insertBefore(element("li", words, "line"), cards.children[shown.findIndex(({ id }) => id === first.id)]);
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
  cards.append(...fresh.flatMap((photo) => [...makeDate(photo, photos), makeCard(photo, line(photo))]));
}

/** A header before the first photo of a day or month. */
function makeDate({ taken }, page) {
  if (!taken) return [];
  const days = new Set(page.map((photo) => photo.taken.slice(0, 10)));
  const isByDay = page.length >= PHOTOS_A_DAY * days.size;
  const format = isByDay ? { weekday: "short", day: "numeric", month: "long", year: "numeric" }
    : { month: "long", year: "numeric" };
  const words = new Date(taken).toLocaleDateString("en-GB", format);
  if (words === dated) return [];
  dated = words;
  const header = element("li", "", "date");
  header.append(element("h2", words));
  return [header];
}

// --- a card

function makeCard(photo, line) {
  const card = element("li"), link = element("a"), frame = element("div", "", "frame");
  const picture = new Image(), layer = element("div", "", "regions");
  const ratio = photo.width / photo.height, held = Math.min(2.2, Math.max(0.62, ratio));
  card.style.setProperty("--ratio", held);
  Object.assign(picture, { loading: "lazy", decoding: "async", alt: altOf(photo) });
  picture.src = api.thumbnail(photo.id);
  layer.append(...(photo.regions ?? []).map(({ xyxy }, number) => makeBox(photo, { xyxy }, number)));
  frame.append(element("div"));
  // A very wide or tall photo has bars in its frame.
  Object.assign(frame.firstChild.style, { aspectRatio: ratio, [ratio > held ? "width" : "height"]: "100%" });
  frame.firstChild.append(picture, layer);
  link.href = `#photo=${encodeURIComponent(photo.id)}`;
  link.dataset.id = photo.id;
  const foot = element("small");
  foot.append(element("span", baseName(photo.path)));
  if (asked.kind === "search") foot.append(percent(photo.score));
  if (asked.kind === "like") foot.append(`${percent(photo.score)} alike`);
  line.ariaHidden = "true"; // the picture's alt says it
  link.append(frame, line, foot);
  link.addEventListener("pointerover", (event) => mark(link, event.target.dataset.region));
  link.addEventListener("pointerleave", () => mark(link, undefined));
  card.append(link, selection.makeBox(photo, baseName(photo.path)));
  return card;
}

/** What a photo shows, for those who do not see it. */
const altOf = (photo) => selection.captionsOf(photo).join(", ") || "Nothing likely was found in this photo";

function captionLine({ captions, sure }) {
  const line = element("p");
  line.append(makeWords(captions.join(" · "), sure || !captions.length));
  return line;
}

/** The words of the query in the colours of the regions that they found; or what the region is said to be. */
function wordLine({ words, regions }) {
  const line = element("p", "", "query");
  if (!words.length) line.append(...regions.map(({ caption, sure }) => makeWords(caption, sure)));
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
  stretch.title = hedged(regions[region].caption, regions[region].sure);
  return stretch;
}

/** Marks the region of the word that is pointed at. */
function mark(link, region) {
  link.classList.toggle("pointing", region !== undefined);
  link.querySelectorAll(".region").forEach((box, number) => box.classList.toggle("active", `${number}` === region));
}

// --- suggestions: what is often said of these photos; each leads to the photos that show it

function suggest() {
  const counts = new Map();
  for (const { captions, sure } of shown) {
    for (const caption of sure ? captions : []) counts.set(caption, (counts.get(caption) ?? 0) + 1);
  }
  const worth = (caption) => counts.get(caption) + Math.min(4, caption.split(" ").length);
  const often = [...counts.keys()].sort((a, b) => worth(b) - worth(a)).slice(0, 6);
  find("tips").hidden = !often.length;
  find("suggestions").replaceChildren(...often.map((caption) => {
    const item = element("li"), link = element("a", caption, "button");
    link.href = `?${new URLSearchParams({ caption })}`;
    item.append(link);
    return item;
  }));
}

/** The index has changed: new photos are shown unless one has gone on down the page, and a search may find more. */
export async function refresh() {
  if (!asked || (shown.length >= PAGE && (server.indexing || scrollY > 0))) return;
  if (asked.kind !== "all" || isNarrowed(asked)) return server.indexing || show(asked, true);
  const focused = document.activeElement.dataset.id;
  const page = await api.photos({ offset: 0, limit: PAGE }).catch(() => null);
  if (!page || asked.kind !== "all" || isNarrowed(asked)) return;
  empty();
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
