
"use strict";
const data = JSON.parse(document.querySelector("#data").textContent);
const items = data.photos.flatMap((photo) => photo.regions.map((region) => ({ photo, ...region })));
const element = (id) => document.querySelector(`#${id}`);
const judge = element("judge");
const VERDICTS = ["right", "half", "wrong"];
const AROUND = 0.6; // of the region's sides, shown on each side of it

// What was judged is kept in the browser, under a name that only this set of captions has.
const key = `regiontalk-judging-${data.set}`;
const state = JSON.parse(localStorage.getItem(key) || '{"judge": "", "verdicts": []}');

function save() {
  localStorage.setItem(key, JSON.stringify(state));
}

function draw(id, photo, share, [x0, y0, x1, y1]) {
  const svg = element(id);
  const [image, box] = svg.children;
  const { width, height } = photo;
  svg.setAttribute("viewBox", `${x0 * width} ${y0 * height} ${(x1 - x0) * width} ${(y1 - y0) * height}`);
  for (const [name, value] of Object.entries({ href: photo.uri, width, height })) image.setAttribute(name, value);
  const [left, top, right, bottom] = share;
  const place = { x: left * width, y: top * height, width: (right - left) * width, height: (bottom - top) * height };
  for (const [name, value] of Object.entries(place)) box.setAttribute(name, value);
}

function around([x0, y0, x1, y1]) {
  const [x, y] = [Math.max(AROUND * (x1 - x0), 0.08), Math.max(AROUND * (y1 - y0), 0.08)];
  return [Math.max(0, x0 - x), Math.max(0, y0 - y), Math.min(1, x1 + x), Math.min(1, y1 + y)];
}

async function show() {
  const number = state.verdicts.length;
  element("bar").max = items.length;
  element("bar").value = number;
  element("count").textContent = `${number} of ${items.length}`;
  element("task").hidden = number >= items.length;
  element("done").hidden = number < items.length;
  if (number >= items.length) {
    const shares = VERDICTS.map((verdict) => {
      const count = state.verdicts.filter((one) => one === verdict).length;
      return `${verdict} ${((100 * count) / items.length).toFixed(1)} %`;
    });
    element("shares").textContent = shares.join(", ");
    return;
  }
  const { photo, share, caption } = items[number];
  element("caption").textContent = caption;
  if (!photo.uri) {
    const picture = new Image();
    picture.src = `data:image/jpeg;base64,${photo.jpeg}`;
    await picture.decode();
    Object.assign(photo, { uri: picture.src, width: picture.naturalWidth, height: picture.naturalHeight });
    if (number !== state.verdicts.length) return;
  }
  draw("crop", photo, share, around(share));
  draw("whole", photo, share, [0, 0, 1, 1]);
  document.body.dataset.shown = number;
}

function decide(verdict) {
  if (state.verdicts.length >= items.length) return;
  state.verdicts.push(verdict);
  save();
  show();
}

function undo() {
  state.verdicts.pop();
  save();
  show();
}

function judging() {
  const found = items.map(({ photo, xyxy, caption }, number) => ({
    photo: photo.photo, xyxy, caption, verdict: state.verdicts[number] || null,
  }));
  const date = new Date().toISOString().slice(0, 10);
  return { schema: data.schema, judge: state.judge, date, model: data.model, items: found };
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(judging(), null, 1)], { type: "application/json" }));
  link.download = `judging-${state.judge.replace(/[^\p{L}\p{N}]+/gu, "-") || "unnamed"}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

judge.value = state.judge;
judge.addEventListener("input", () => {
  state.judge = judge.value.trim();
  save();
});
for (const button of document.querySelectorAll("[data-verdict]"))
  button.addEventListener("click", () => decide(button.dataset.verdict));
element("undo").addEventListener("click", undo);
element("download").addEventListener("click", download);
document.addEventListener("keydown", (event) => {
  if (event.target === judge || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const name = { 1: "right", r: "right", 2: "half", h: "half", 3: "wrong", w: "wrong" }[event.key.toLowerCase()];
  if (name) decide(name);
  else if (event.key.toLowerCase() === "u" || event.key === "Backspace") undo();
});
show();
