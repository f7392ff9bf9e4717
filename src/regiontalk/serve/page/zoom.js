// The photo larger than its place: by buttons, keys, a double click, or the wheel with Ctrl; dragged when it is larger.

import { find } from "./regions.js";

const LARGEST = 8;
const STEP = 1.5;
const STILL = 5; // pixels: less is a click
const stage = find("stage"), canvas = find("canvas");
let scale = 1;
let left = 0; // of the canvas in the stage, in pixels
let top = 0;
let enlarged = () => {};

export const isZoomed = () => scale > 1;

/** Called when a sharper picture is worth loading. */
export function onEnlarge(call) {
  enlarged = call;
}

function place() {
  const inside = (offset, length) => Math.min(0, Math.max(length * (1 - scale), offset));
  left = inside(left, stage.clientWidth);
  top = inside(top, stage.clientHeight);
  Object.assign(canvas.style, { width: `${100 * scale}%`, height: `${100 * scale}%`, left: `${left}px`, top: `${top}px` });
  stage.classList.toggle("zoomed", isZoomed());
}

/** The point (x, y) of the stage stays where it is. */
function zoom(to, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const before = scale;
  scale = Math.min(LARGEST, Math.max(1, to));
  left = x - (x - left) * scale / before;
  top = y - (y - top) * scale / before;
  place();
  if (scale > before) enlarged();
}

export const zoomIn = () => zoom(scale * STEP);
export const zoomOut = () => zoom(scale / STEP);
export const showWhole = () => zoom(1);

function pointIn({ clientX, clientY }) {
  const { left: x, top: y } = stage.getBoundingClientRect();
  return [clientX - x, clientY - y];
}

stage.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !document.fullscreenElement) return; // the page scrolls
  event.preventDefault();
  zoom(scale * Math.exp(-event.deltaY / 400), ...pointIn(event));
}, { passive: false });

stage.addEventListener("dblclick", (event) => {
  if (event.target.closest(".region, .open")) return;
  zoom(isZoomed() ? 1 : 2.5, ...pointIn(event));
});

stage.addEventListener("pointerdown", (down) => {
  if (!isZoomed() || !down.isPrimary || down.target.closest(".open")) return;
  const from = { left, top }, listening = new AbortController(), { signal } = listening;
  let still = true;
  addEventListener("pointermove", (event) => {
    const right = event.clientX - down.clientX, below = event.clientY - down.clientY;
    still &&= Math.hypot(right, below) < STILL;
    if (still) return;
    left = from.left + right;
    top = from.top + below;
    place();
  }, { signal });
  const end = () => {
    listening.abort();
    if (!still) stage.addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
  };
  addEventListener("pointerup", end, { signal });
  addEventListener("pointercancel", end, { signal });
});

addEventListener("resize", place);
find("zoom-in").addEventListener("click", zoomIn);
find("zoom-out").addEventListener("click", zoomOut);
