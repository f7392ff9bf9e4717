// The page of `regiontalk serve`. Its address says what is shown:
//   /                       all photos, or only a place to drop one (?caption=WORDS: those that show this caption)
//   ?q=WORDS                photos that show it (&exact=1: with these very words)
//   ?like=ID&box=x0,y0,…    photos with a region like this one
//   &folder=&after=&before= narrow each of them
//   …#photo=ID              one of them; #photo=dropped the one that was dropped last

import * as api from "./api.js";
import * as grid from "./grid.js";
import * as viewer from "./photo.js";
import { baseName, find } from "./regions.js";
import * as selection from "./selection.js";
import { complain, forgive, say, server, watch } from "./status.js";
import * as teaching from "./teach.js";
import * as zoom from "./zoom.js";

const DROPPED = "dropped";
const FILTERS = ["folder", "after", "before"];
const filters = find("filters").querySelector("form");
const browse = find("browse"), view = find("viewer"), query = find("query");
let dropped = null; // {file, url, width, height}
let opened = null; // what the viewer shows: an id, or the file
let address = location.href;
let scrolled = 0;

// --- what the address says

function readRoute() {
  const asked = new URLSearchParams(location.search), key = location.search;
  const part = (name) => asked.get(name) ?? "";
  const narrowed = Object.fromEntries(FILTERS.map((one) => [one, part(one)]));
  if (asked.has("like")) return { kind: "like", key, ...likeRoute(part("like"), part("box"), part("what")), ...narrowed };
  const words = part("q").trim();
  if (words) return { kind: "search", key, query: words, exact: asked.has("exact"), ...narrowed };
  return { kind: "all", key, caption: part("caption"), ...narrowed };
}

function likeRoute(id, box, what) {
  const xyxy = box.split(",").map(Number);
  if (id === DROPPED) return { photo: dropped, source: dropped?.url, xyxy, what };
  const photo = viewer.current()?.id === id ? viewer.current() : { id };
  return { photo, source: api.image(id), xyxy, what };
}

const photoInAddress = () => new URLSearchParams(location.hash.slice(1)).get("photo");

async function route() {
  if (viewer.isEditing() && !viewer.leave()) return history.pushState(null, "", address);
  address = location.href;
  forgive();
  const asked = readRoute(), id = photoInAddress(), shown = id === DROPPED ? dropped : id && { id };
  query.value = asked.query ?? "";
  for (const name of FILTERS) filters[name].value = asked[name] ?? "";
  if (id === DROPPED && !dropped) return history.replaceState(null, "", location.pathname + location.search), route();
  if (shown) openPhoto(shown);
  else closePhoto();
  if (asked.kind === "like" && asked.photo?.id && !asked.photo.width) await addSize(asked);
  await grid.show(asked);
  placeAmongOthers();
}

/** A region's photo whose size is not known yet, as after a reload. */
async function addSize(asked) {
  asked.photo = await api.photo(asked.photo.id).catch((error) => { complain(error); return null; });
}

function openPhoto(shown) {
  const same = opened === (shown.file ?? shown.id);
  if (view.hidden) scrolled = scrollY;
  browse.hidden = true;
  view.hidden = false;
  if (same) return;
  opened = shown.file ?? shown.id;
  scrollTo(0, 0);
  viewer.open(shown).then(() => { if (shown.file) Object.assign(dropped, sizeOf(viewer.current())); });
  find("name").focus({ preventScroll: true });
}

const sizeOf = ({ width, height }) => ({ width, height });

function closePhoto() {
  const from = opened;
  opened = null;
  view.hidden = true;
  browse.hidden = false;
  document.title = query.value ? `${query.value} – RegionTalk` : "RegionTalk";
  if (from === null) return;
  scrollTo(0, scrolled);
  grid.cardOf(from)?.focus({ preventScroll: true });
}

function placeAmongOthers() {
  const ids = grid.ids(), at = ids.indexOf(opened);
  find("steps").hidden = at < 0 || ids.length < 2;
  find("place").textContent = `${at + 1} / ${ids.length}`;
}

function go(to) {
  history.pushState(null, "", to);
  return route();
}

/** To the photo after the one shown (1), or before it (-1), round and round; Back still leads to all of them. */
function step(by) {
  const ids = grid.ids(), at = ids.indexOf(opened);
  if (at < 0 || (viewer.isEditing() && !viewer.leave())) return;
  history.replaceState(null, "", `#photo=${encodeURIComponent(ids[(at + by + ids.length) % ids.length])}`);
  route();
}

const close = () => go(location.pathname + location.search);

viewer.onLike(({ xyxy, caption }) => {
  const { id } = viewer.current(), box = xyxy.map((side) => Math.round(side)).join();
  go(`${location.pathname}?${new URLSearchParams({ like: id ?? DROPPED, box, what: caption })}`);
});

// Links within the page change the address without loading it again.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || link.className === "skip" || link.hasAttribute("download") || link.id === "live" || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.id === "back") close();
  else go(link.href);
});
addEventListener("popstate", route);

// --- photos that are dropped, pasted or picked

function take(files) {
  const file = [...files].find(({ type }) => !type || type.startsWith("image/"));
  if (!file) return complain(new api.ApiError("This is no photo.", "Drop a JPEG, PNG, WebP or the like."));
  if (viewer.isEditing() && !viewer.leave()) return;
  if (dropped) URL.revokeObjectURL(dropped.url);
  dropped = { file, url: URL.createObjectURL(file) };
  opened = null;
  go("/#photo=dropped");
  if (files.length > 1) say(`One photo at a time: this is ${baseName(file.name)}`);
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const veil = find("veil");
document.addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  veil.hidden = false;
});
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) veil.hidden = true; });
document.addEventListener("drop", (event) => {
  veil.hidden = true;
  if (!hasFiles(event)) return;
  event.preventDefault();
  take(event.dataTransfer.files);
});
document.addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  take(event.clipboardData.files);
});
for (const id of ["pick", "drop"]) find(id).addEventListener("click", () => find("file").click());
find("file").addEventListener("change", (event) => {
  if (event.target.files.length) take(event.target.files);
  event.target.value = ""; // the same photo may be picked again
});

// --- searching

const givenFilters = () => Object.fromEntries([...new FormData(filters)].filter(([, value]) => value));
const addressOf = (parameters) => `/?${new URLSearchParams(parameters)}`.replace(/\?$/, "");

find("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = query.value.trim();
  go(addressOf({ ...(words ? { q: words } : {}), ...givenFilters() }));
});

/** The filters narrow what is shown, whatever that is. */
filters.addEventListener("submit", (event) => {
  event.preventDefault();
  const others = [...new URLSearchParams(location.search)].filter(([name]) => !FILTERS.includes(name));
  go(addressOf({ ...Object.fromEntries(others), ...givenFilters() }));
});

// --- keys

const ARROWS = { ArrowUp: -1, ArrowDown: 1 };
const VIEWER_KEYS = {
  ...{ ArrowRight: () => step(1), ArrowLeft: () => step(-1), j: () => step(1), k: () => step(-1) },
  ...{ "+": zoom.zoomIn, "=": zoom.zoomIn, "-": zoom.zoomOut, 0: zoom.showWhole },
  ...{ f: viewer.fullScreen, c: viewer.copyCaptions, d: () => find("download").click() },
};
const help = find("help");
const showHelp = () => help.showModal();

function pressEscape() {
  if (help.open) help.close();
  else if (viewer.isEditing()) viewer.leave();
  else if (!view.hidden && zoom.isZoomed()) zoom.showWhole();
  else if (view.hidden && !selection.isEmpty()) selection.clear();
  else if (!view.hidden) close();
  else if (location.search) go("/");
}

function pressInGrid(event) {
  const card = event.key.startsWith("Arrow") && (event.key !== "ArrowUp" || document.activeElement.dataset.id)
    ? grid.moveFocus(event.key) : null;
  if (!card) return;
  event.preventDefault();
  card.focus();
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && viewer.isEditing()) return viewer.undo(event);
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.matches("input:not([type=checkbox], [type=range])");
  if (event.key === "Escape") return pressEscape();
  if (event.key === "ArrowDown" && event.target === query && view.hidden) return pressInGrid(event);
  if (typing || help.open) return;
  if (event.key === "?") return showHelp();
  if (viewer.isEditing()) return;
  if (event.target.type === "range" && event.key.startsWith("Arrow")) return; // the slider's own keys
  if (event.key === "/" && server.folder) {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (view.hidden && event.key === "x") document.activeElement.closest("#cards li")?.querySelector(".select").click();
  else if (view.hidden) pressInGrid(event);
  else if (event.key in ARROWS) {
    event.preventDefault();
    viewer.moveAmongCaptions(ARROWS[event.key]);
  } else if (event.key === "Enter" && event.target.classList.contains("segment")) event.target.click();
  else VIEWER_KEYS[event.key]?.();
});
find("keys").addEventListener("click", showHelp);
find("previous").addEventListener("click", () => step(-1));
find("next").addEventListener("click", () => step(1));

// A swipe on the photo: a finger moves much further sideways than up or down.
let touched = null;
find("stage").addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch" ? event : null; });
find("stage").addEventListener("pointerup", (event) => {
  if (!touched || viewer.isEditing() || zoom.isZoomed() || visualViewport.scale > 1.05) return;
  const right = event.clientX - touched.clientX, down = event.clientY - touched.clientY;
  if (Math.abs(right) > 40 && Math.abs(right) > 2 * Math.abs(down)) step(right < 0 ? 1 : -1);
});

// --- the start

let started = false;
function hear() {
  if (server.status === "starting") return; // `watch` asks again
  find("search").hidden = !server.folder;
  document.body.classList.toggle("with-folder", Boolean(server.folder));
  if (started) return grid.refresh();
  started = true;
  for (const part of ["no-folder", "greeting"]) find(part).hidden = Boolean(server.folder);
  teaching.start();
  return route();
}

history.scrollRestoration = "manual";
document.addEventListener("visibilitychange", () => watch(hear));
watch(hear);
