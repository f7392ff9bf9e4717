// Correcting a photo's regions: draw, move, resize, delete, and say it in other words.

import { colour, element, find, largestFirst, makeBox, placeBox } from "./regions.js";

const SMALLEST = 4; // pixels of the photo
const STILL = 5; // pixels of the screen: less is a click
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const layer = find("regions"), list = find("drafts");
let photo = null; // its width and height
let drafts = []; // {xyxy, caption, box, row}
let selected = null;
let fresh = null; // the one that "Add a region" added, until it is placed or has words
let before = "";
let past = []; // the regions before each change

const plain = () => drafts.map(({ xyxy, caption }) => ({ xyxy: xyxy.map((x) => Math.round(x * 100) / 100), caption }));
export const changed = () => photo !== null && JSON.stringify(plain()) !== before;

export function begin(size, regions) {
  photo = size;
  drafts = [];
  fresh = null;
  list.replaceChildren();
  layer.replaceChildren();
  layer.classList.add("open");
  layer.ariaHidden = "false"; // now they can be moved with the keyboard
  for (const { xyxy, caption } of regions) add([...xyxy], caption);
  before = JSON.stringify(plain());
  past = [];
  select(null);
  find("undo").disabled = true;
}

/** Called before a change. */
function remember() {
  const now = JSON.stringify(plain());
  if (past.at(-1) !== now) past.push(now);
  find("undo").disabled = false;
}

/** Takes back the last change. */
export function undo() {
  const now = JSON.stringify(plain());
  let last = past.pop();
  while (last === now) last = past.pop();
  find("undo").disabled = !past.length;
  if (last === undefined) return;
  drafts = [];
  fresh = null;
  list.replaceChildren();
  layer.replaceChildren();
  for (const { xyxy, caption } of JSON.parse(last)) add(xyxy, caption);
  select(null);
  (drafts.length ? list.querySelector("input") : find("add")).focus({ preventScroll: true });
}

export function end() {
  photo = null;
  layer.classList.remove("open");
  layer.ariaHidden = "true";
}

/** The regions as they are to be saved; null, with the focus on it, while one has no caption. */
export function result() {
  const empty = drafts.find(({ caption }) => !caption);
  empty?.row.querySelector("input").focus();
  return empty ? null : plain();
}

function add(xyxy, caption) {
  const draft = { xyxy, caption, box: makeBox(photo, { xyxy }, drafts.length), row: element("li") };
  const key = element("i", "", "key"), words = element("input"), drop = element("button", "✕");
  key.style.setProperty("--colour", colour(drafts.length));
  Object.assign(words, { value: caption, maxLength: 200, ariaLabel: "Caption", placeholder: "what is it?" });
  Object.assign(drop, { type: "button", ariaLabel: "Delete this region" });
  words.addEventListener("beforeinput", remember);
  words.addEventListener("input", () => { draft.caption = words.value.trim(); });
  words.addEventListener("focus", () => select(draft));
  drop.addEventListener("click", () => remove(draft));
  draft.row.append(key, words, drop);
  draft.box.append(...["nw", "ne", "sw", "se"].map((corner) => element("b", "", corner)));
  Object.assign(draft.box, { tabIndex: 0, role: "group", draft });
  draft.box.addEventListener("focus", () => select(draft));
  draft.box.addEventListener("keydown", (event) => moveByKey(draft, event));
  drafts.push(draft);
  list.append(draft.row);
  arrange();
  return draft;
}

/** The smallest on top, so that each can be clicked. */
function arrange() {
  const order = largestFirst(drafts).map((number) => drafts[number].box);
  if (order.some((box, place) => layer.children[place] !== box)) layer.replaceChildren(...order);
}

function remove(draft) {
  remember();
  const at = drafts.indexOf(draft);
  drafts.splice(at, 1);
  draft.box.remove();
  draft.row.remove();
  select(null);
  (drafts[Math.min(at, drafts.length - 1)]?.row.querySelector("input") ?? find("add")).focus();
}

function select(draft) {
  selected = draft;
  for (const one of drafts) {
    one.box.ariaLabel = `Region: ${one.caption || "without words"}`;
    for (const part of [one.box, one.row]) part.classList.toggle("selected", one === draft);
  }
}

/** With what lies outside of the photo cut off, and corners in order. */
function put(draft, [x0, y0, x1, y1]) {
  const inside = (value, most) => Math.min(most, Math.max(0, value));
  const [left, right] = [x0, x1].map((x) => inside(x, photo.width)).sort((a, b) => a - b);
  const [top, bottom] = [y0, y1].map((y) => inside(y, photo.height)).sort((a, b) => a - b);
  if (right - left < SMALLEST || bottom - top < SMALLEST) return;
  if (draft === fresh) fresh = null;
  draft.xyxy = [left, top, right, bottom];
  placeBox(draft.box, photo, draft.xyxy);
}

function move(draft, [x0, y0, x1, y1], right, down) {
  const dx = Math.min(photo.width - x1, Math.max(-x0, right)), dy = Math.min(photo.height - y1, Math.max(-y0, down));
  put(draft, [x0 + dx, y0 + dy, x1 + dx, y1 + dy]);
}

function moveByKey(draft, event) {
  if (event.key === "Delete" || event.key === "Backspace") remove(draft);
  if (event.key === "Enter") draft.row.querySelector("input").focus();
  if (!(event.key in STEPS)) return;
  remember();
  event.preventDefault();
  event.stopPropagation(); // no step to the next photo
  const step = Math.max(photo.width, photo.height) / 100, [right, down] = STEPS[event.key].map((one) => one * step);
  const [x0, y0, x1, y1] = draft.xyxy;
  if (event.shiftKey) put(draft, [x0, y0, x1 + right, y1 + down]);
  else move(draft, draft.xyxy, right, down);
}

export function addInTheMiddle() {
  remember();
  const { width, height } = photo;
  fresh = add([0.3 * width, 0.3 * height, 0.7 * width, 0.7 * height], "");
  fresh.row.querySelector("input").focus();
}

// --- with a mouse, a pen or a finger

/** What moving the pointer does, by where it went down: a corner, the selected region, or elsewhere. */
function grip(target, [x, y]) {
  const box = target.closest(".region"), from = selected?.xyxy, corner = target.className;
  if (box?.draft !== selected || !box) return drawFrom([x, y]);
  if (!["nw", "ne", "sw", "se"].includes(corner)) return ([a, b]) => move(selected, from, a - x, b - y);
  const fixed = [from[corner.endsWith("w") ? 2 : 0], from[corner.startsWith("n") ? 3 : 1]];
  return (to) => put(selected, [...fixed, ...to]);
}

/** Draws the region that was added last, if it still waits for its place, or else one more. */
function drawFrom(corner) {
  const waiting = drafts.includes(fresh) && !fresh.caption ? fresh : null;
  let drawn = null;
  return (to) => {
    if (!drawn) select(drawn = waiting ?? add([...corner, ...corner], ""));
    put(drawn, [...corner, ...to]);
  };
}

layer.addEventListener("pointerdown", (down) => {
  if (!photo || !down.isPrimary) return;
  const { left, top, width, height } = layer.getBoundingClientRect(), count = drafts.length, waiting = fresh;
  const at = (event) => [(event.clientX - left) / width * photo.width, (event.clientY - top) / height * photo.height];
  remember();
  const follow = grip(down.target, at(down)), listening = new AbortController(), { signal } = listening;
  let still = true;
  layer.setPointerCapture(down.pointerId);
  layer.addEventListener("pointermove", (event) => {
    still &&= Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < STILL;
    if (!still) follow(at(event));
  }, { signal });
  layer.addEventListener("pointerup", () => {
    listening.abort();
    arrange();
    if (drafts.length > count || (waiting && waiting !== fresh)) selected.row.querySelector("input").focus();
    else if (still) select(down.target.closest(".region")?.draft ?? null);
    selected?.box.contains(down.target) && selected.box.focus();
  }, { signal });
  layer.addEventListener("pointercancel", () => listening.abort(), { signal });
});
