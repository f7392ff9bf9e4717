// Several photos at once: their captions are copied, their files downloaded.

import * as api from "./api.js";
import { element, find, hedged, plural } from "./regions.js";
import { complain, say } from "./status.js";

const PAUSE = 300; // milliseconds between two downloads: browsers drop those that come at once
const bar = find("selection");
const chosen = new Map(); // id -> {photo, box}
let last = null; // the box that was changed last

export const isEmpty = () => chosen.size === 0;

/** A box on a card; with Shift, a click also selects the photos since the last one. */
export function makeBox(photo, name) {
  const box = element("input", "", "select");
  Object.assign(box, { type: "checkbox", ariaLabel: `Select ${name}` });
  box.photo = photo;
  box.checked = chosen.has(photo.id);
  if (box.checked) chosen.get(photo.id).box = box;
  box.addEventListener("click", (event) => {
    const boxes = [...document.querySelectorAll("#cards .select")];
    const [from, to] = [boxes.indexOf(event.shiftKey ? last ?? box : box), boxes.indexOf(box)].sort((a, b) => a - b);
    boxes.slice(from < 0 ? to : from, to + 1).forEach((one) => put(one, box.checked));
    last = box;
    show();
  });
  return box;
}

function put(box, isChosen) {
  box.checked = isChosen;
  if (isChosen) chosen.set(box.photo.id, { photo: box.photo, box });
  else chosen.delete(box.photo.id);
}

function show() {
  bar.hidden = isEmpty();
  find("selected-count").textContent = `${plural(chosen.size, "photo")} selected`;
  document.body.classList.toggle("selecting", !isEmpty());
}

export function clear() {
  for (const { box } of chosen.values()) box.checked = false;
  chosen.clear();
  last = null;
  show();
}

/** Copies a text, and says so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
    return true;
  } catch {
    complain(new api.ApiError("The browser does not let this page copy.", "Select the words, and copy them yourself."));
    return false;
  }
}

/** A button's own words tell for a moment what was done. */
export async function copyBy(button, text, what) {
  if (!await copy(text, what) || button.dataset.words) return;
  button.dataset.words = button.textContent;
  button.textContent = "✓ Copied";
  setTimeout(() => {
    button.textContent = button.dataset.words;
    delete button.dataset.words;
  }, 1500);
}

/** What is said of a photo in a list, each caption once: {captions, sure}, or {regions} that were found. */
export function captionsOf({ captions, sure, regions = [] }) {
  const said = captions ? captions.map((caption) => ({ caption, sure })) : regions.filter(({ caption }) => caption);
  return [...new Set(said.map((one) => hedged(one.caption, one.sure ?? true)))];
}

function copyAll() {
  const lines = [...chosen.values()].map(({ photo }) => `${photo.path}\t${captionsOf(photo).join("; ")}`);
  copyBy(find("copy-selected"), lines.join("\n"), `Captions of ${plural(lines.length, "photo")}`);
}

export function download(id) {
  const link = element("a");
  Object.assign(link, { href: api.file(id), download: "" });
  document.body.append(link);
  link.click();
  link.remove();
}

async function downloadAll() {
  const ids = [...chosen.keys()];
  for (const id of ids) {
    download(id);
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  say(`${plural(ids.length, "photo")} downloaded`);
}

find("copy-selected").addEventListener("click", copyAll);
find("download-selected").addEventListener("click", downloadAll);
find("unselect").addEventListener("click", clear);
