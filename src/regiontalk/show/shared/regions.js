// What both pages share, this one and the one that `caption -o page.html` writes: regions on a photo, and the words
// that belong to them. `regiontalk.page` puts this file into its page as it stands.

export const PALETTE = [
  "#ff6b6b", "#58d66e", "#ffd93d", "#60a8ff", "#ff9f43", "#c48cff",
  "#40e0e8", "#ff80dc", "#c8f050", "#ffc8cd", "#3ab8a0", "#d6a874",
];
export const colour = (number) => PALETTE[number % PALETTE.length];
export const percent = (share) => `${Math.round(100 * share)} %`;
export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/** Of a frame of a video, clip.mp4#t=72.5, with its time. */
export function baseName(path) {
  const name = path.split("/").at(-1) || path || "Photo", [, video, seconds] = name.match(/^(.+\.\w+)#t=([\d.]+)$/) ?? [];
  return video ? `${video} · ${clock(Number(seconds))}` : name;
}

export const find = (id) => document.getElementById(id);

/** Texts become text nodes, never HTML. */
export function element(kind, text = "", className = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = className;
  return made;
}

/** Whether a score or a confidence, as people read it, is at least `cutOff`. */
export const reaches = (value, cutOff) => value === undefined || Math.round(100 * value) >= Math.round(100 * cutOff);

const area = ({ xyxy: [x0, y0, x1, y1] }) => (x1 - x0) * (y1 - y0);

/** The numbers of regions with the largest first: the smallest lie on top, so that each can be pointed at. */
export const largestFirst = (regions) => [...regions.keys()].sort((a, b) => area(regions[b]) - area(regions[a]));

export const NOT_SURE = "not sure";

/** What is read aloud or written where nothing can be grey. */
export const hedged = (text, isSure) => isSure ? text : `${text} (${NOT_SURE})`;

/** Words that the model is not sure of are grey, and say so. */
export function makeWords(words, isSure) {
  const made = element("bdi", "", isSure ? "words" : "words unsure");
  made.append(words);
  if (!isSure) made.append(" ", element("em", NOT_SURE));
  return made;
}

/** Puts a box where a region is in a photo of `width` times `height`. */
export function placeBox(box, { width, height }, [x0, y0, x1, y1]) {
  box.style.left = `${100 * x0 / width}%`;
  box.style.top = `${100 * y0 / height}%`;
  box.style.width = `${100 * (x1 - x0) / width}%`;
  box.style.height = `${100 * (y1 - y0) / height}%`;
}

export function makeBox(photo, { xyxy, sure = true }, number) {
  const box = element("div", "", sure ? "region" : "region unsure");
  placeBox(box, photo, xyxy);
  box.style.setProperty("--colour", colour(number));
  return box;
}

/** Above the region; below it where there is no room; else inside. */
function placeLabel(label, { width, height }, [x0, y0, x1, y1]) {
  const toRight = x0 + x1 > width, above = y0 > 0.1 * height, below = !above && y1 < 0.9 * height;
  label.style.left = toRight ? "auto" : `${100 * x0 / width}%`;
  label.style.right = toRight ? `${100 * (1 - x1 / width)}%` : "auto";
  label.style.top = `${100 * (below ? y1 : y0) / height}%`;
  label.style.transform = above ? "translateY(calc(-100% - 4px))" : "translateY(5px)";
}

const overlap = (a, b) => a.left < b.left + b.width && b.left < a.left + a.width
  && a.top < b.top + b.height && b.top < a.top + a.height;

/** Where a label of this size can stand at a box, best first: above it, in its corners, below it. */
function placesAt({ left, top, right, bottom }, { width, height }, room) {
  const tops = [top - height, top, bottom - height, bottom], lefts = [left, right - width];
  return lefts.flatMap((x) => tops.map((y) => ({
    left: Math.max(0, Math.min(x, room.width - width)), top: y, width, height,
  }))).filter((place) => place.top >= 0 && place.top + height <= room.height && width <= room.width);
}

/** The regions on a photo, linked with words beside it: pointing at one marks the other. */
export class Overlay {
  photo = { regions: [] };
  boxes = []; // elements on the photo, by region
  words = []; // {element, region} beside it
  hovered = null; // numbers of regions
  chosen = null;
  onPick = null; // called with the number of a region that was clicked while it was marked

  constructor(stage, layer, label) {
    Object.assign(this, { stage, layer, label, tags: [], tagLayer: element("div", "", "tags") });
    this.tagLayer.ariaHidden = "true";
    layer.after(this.tagLayer);
    stage.addEventListener("click", () => this.choose(null));
    new ResizeObserver(() => this.placeTags()).observe(layer);
  }

  show(photo, words) {
    this.photo = photo;
    this.words = words;
    this.boxes = photo.regions.map((region, number) => makeBox(photo, region, number));
    this.boxes.forEach((box, number) => this.#listen(box, number, this.onPick));
    words.forEach(({ element: said, region }) => this.#listen(said, region, null));
    this.layer.replaceChildren(...largestFirst(photo.regions).map((number) => this.boxes[number]));
    this.hovered = null;
    this.tags = photo.regions.map(({ caption, sure = true }, number) => {
      const tag = element("span", hedged(caption, sure), sure ? "tag" : "tag unsure");
      tag.style.setProperty("--colour", colour(number));
      return tag;
    });
    this.tagLayer.replaceChildren(...this.tags);
    this.placeTags();
    this.choose(null);
  }

  /** Each label stands at its box where it covers no other; without room, it is seen by pointing. */
  placeTags() {
    const room = { width: this.layer.clientWidth, height: this.layer.clientHeight }, taken = [];
    const { width, height, regions } = this.photo;
    this.tags.forEach((tag, number) => {
      tag.hidden = this.boxes[number].hidden || !tag.textContent;
      if (tag.hidden) return;
      const [x0, y0, x1, y1] = regions[number].xyxy, x = room.width / width, y = room.height / height;
      const box = { left: x0 * x, top: y0 * y, right: x1 * x, bottom: y1 * y };
      const places = placesAt(box, { width: tag.offsetWidth, height: tag.offsetHeight }, room);
      const free = places.find((place) => !taken.some((other) => overlap(place, other)));
      tag.hidden = !free;
      if (!free) return;
      taken.push(free);
      Object.assign(tag.style, { left: `${free.left}px`, top: `${free.top}px` });
    });
  }

  choose(number) {
    this.chosen = number;
    this.#mark();
  }

  #listen(target, number, pick) {
    const hover = (to) => (event) => {
      if (event.pointerType === "touch") return;
      this.hovered = to;
      this.#mark();
    };
    target.addEventListener("pointerenter", hover(number));
    target.addEventListener("pointerleave", hover(null));
    target.addEventListener("focusin", () => this.choose(number));
    target.addEventListener("focusout", () => this.choose(null));
    target.addEventListener("click", (event) => {
      event.stopPropagation();
      const marked = number === (this.hovered ?? this.chosen); // a finger's first tap only marks
      this.choose(number);
      if (marked) pick?.(number);
    });
  }

  /** Marks the region pointed at, else the one chosen, on the photo and in the words. */
  #mark() {
    const active = this.hovered ?? this.chosen;
    this.boxes.forEach((box, number) => box.classList.toggle("active", number === active));
    this.words.forEach(({ element: said, region }) => said.classList.toggle("active", region === active));
    this.stage.classList.toggle("pointing", active !== null);
    this.label.hidden = active === null;
    if (active === null) return;
    const { xyxy, caption, sure = true } = this.photo.regions[active];
    this.label.textContent = hedged(caption, sure);
    this.label.classList.toggle("unsure", !sure);
    this.label.style.setProperty("--colour", colour(active));
    placeLabel(this.label, this.photo, xyxy);
  }
}

/** An alignment's regions, each once, and its segments with the number of their region. */
export function readAlignment(segments) {
  const keys = [...new Set(segments.map(({ xyxy }) => xyxy.join()))];
  const strongest = Math.max(0, ...segments.flatMap(({ word_scores: scores }) => scores));
  const read = segments.map(({ text, xyxy, word_scores: scores }) => ({
    region: keys.indexOf(xyxy.join()),
    words: text.split(/\s+/).map((word, n) => [word, scores[n] > 0 ? 0.35 + 0.65 * scores[n] / strongest : 0]),
  }));
  const regions = keys.map((key) => {
    const own = segments.filter(({ xyxy }) => xyxy.join() === key);
    return { xyxy: own[0].xyxy, caption: own.map(({ text }) => text).join(" … ") };
  });
  return { regions, segments: read };
}

/** A stretch of an aligned sentence; its words are underlined the stronger, the better they fit the region. */
export function makeSegment({ words, region }) {
  const made = element("span", "", "segment"); // a button's words would not flow with the others
  made.role = "button";
  made.tabIndex = 0;
  made.style.setProperty("--colour", colour(region));
  words.forEach(([word, strength], n) => {
    const part = element("span", n ? ` ${word}` : word);
    part.style.setProperty("--strength", strength);
    made.append(part);
  });
  return { element: made, region };
}
