// One photo: what is in it, which words of a sentence belong where, and corrections.

import * as api from "./api.js";
import * as editor from "./editor.js";
import {
  baseName, clock, colour, element, find, hedged, makeSegment, makeWords, Overlay, percent, plural, reaches, readAlignment,
} from "./regions.js";
import { copyBy } from "./selection.js";
import { complain, forgive, say, server } from "./status.js";
import * as zoom from "./zoom.js";

const stage = find("stage"), picture = find("photo"), slider = find("threshold");
const overlay = new Overlay(stage, find("regions"), find("label"));
let photo = null; // {id or file, path, width, height, regions, corrected}
let pending = new AbortController(); // what is asked for it
let editing = false;

export const current = () => photo;

/** The region that is pointed at or chosen. */
export const marked = () => overlay.photo.regions[overlay.hovered ?? overlay.chosen];

/** Looks at the photo again, with the words that were taught since. */
export const again = () => open(photo.file ? { file: photo.file, url: photo.url } : { id: photo.id });

/** Called with a region to find others like it. */
export function onLike(go) {
  overlay.onPick = (number) => { if (server.folder && !editing) go(overlay.photo.regions[number]); };
}

// --- opening

/** Shows a photo that was dropped, {file}, or one of the index, {id}. */
export async function open(wanted) {
  pending.abort();
  pending = new AbortController();
  stopEditing();
  photo = { ...wanted, regions: [], width: 4, height: 3 };
  name(wanted.file?.name ?? "");
  find("play").hidden = true;
  find("description").className = "";
  find("description").textContent = "Looking at the photo …";
  find("desk").hidden = false;
  find("desk").classList.add("loading");
  size(4, 3, 800);
  forgetAnswers();
  zoom.showWhole();
  choose("captions");
  find("forgotten").hidden = true;
  find("download").href = wanted.file ? wanted.url : api.file(wanted.id);
  find("download").download = wanted.file?.name ?? "";
  picture.src = wanted.file ? wanted.url : api.image(wanted.id);
  stage.classList.add("busy");
  const asked = photo, options = { signal: pending.signal };
  try {
    const found = await (wanted.file ? captionOnce(wanted, options) : api.photo(wanted.id, options));
    Object.assign(photo, found, { found, path: wanted.file?.name ?? found.path });
    fill();
    describe(asked, options);
  } catch (error) {
    find("desk").hidden = asked === photo;
    complain(error);
  } finally {
    if (asked === photo) for (const part of [stage, find("desk")]) part.classList.remove("busy", "loading");
  }
}

/** A dropped photo keeps what was found in it, for when one comes back to it. */
async function captionOnce(dropped, options) {
  dropped.found ??= await api.caption(dropped, options);
  return dropped.found;
}

async function describe(asked, options) {
  find("description").replaceChildren();
  const { sentence, sure } = await api.describe(asked, options).catch(() => ({ sentence: "", sure: true })); // no head
  if (asked !== photo) return;
  find("description").classList.toggle("unsure", !sure);
  find("description").replaceChildren(makeWords(sentence, sure));
}

function name(path) {
  find("name").textContent = baseName(path);
  document.title = `${baseName(path)} – RegionTalk`;
}

picture.addEventListener("load", () => {
  find("undrawn").hidden = true;
  if (photo && !photo.path) size(picture.naturalWidth, picture.naturalHeight); // before the answer is there
});
picture.addEventListener("error", () => { find("undrawn").hidden = false; });

function size(width, height, widest = Math.max(2 * width, 240)) {
  stage.style.setProperty("--ratio", width / height);
  stage.style.setProperty("--widest", `${widest}px`);
}

function fill() {
  size(photo.width, photo.height);
  name(photo.path);
  find("play").hidden = photo.time === undefined;
  find("play").textContent = `▶ Play from ${clock(photo.time ?? 0)}`;
  const taken = photo.taken ? new Date(photo.taken).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" }) : "";
  find("path").textContent = [photo.path, `${photo.width} × ${photo.height}`, taken].filter(Boolean).join(" · ");
  find("corrected").hidden = !photo.corrected;
  find("replaced").hidden = !photo.replaced;
  find("forget").hidden = !photo.id; // a dropped photo has no place to be asked for
  for (const part of ["pick-hint", "correct"]) find(part).hidden = !server.folder; // there is nowhere to save it
  stage.classList.toggle("searchable", Boolean(server.folder));
  slider.value = 100 * server.threshold;
  showCaptions();
  const said = shownCaptions();
  picture.alt = said.join(", ") || "Nothing likely was found in this photo";
  say(said.length ? `${plural(said.length, "region")}: ${said.join(", ")}` : "Nothing likely was found in this photo");
}

// --- captions

const isFirst = () => Number(slider.value) === Math.round(100 * server.threshold);

/** Whether a region is likely enough. Words that are less likely right are, once the slider asks for more than at first. */
const likely = ({ score, confidence }) => reaches(score, slider.value / 100)
  && (reaches(confidence, server.confidence) || slider.value < 100 * server.threshold);

/** At first those of every table, later those that are asked for. */
const shownRegions = () => photo.regions.filter(isFirst() ? ({ shown = true }) => shown : likely);

const shownCaptions = () => [...new Set(shownRegions().map(({ caption, sure = true }) => hedged(caption, sure)))];

/** Each caption once, a line each. */
export function copyCaptions() {
  if (!photo || editing) return;
  copyBy(find("copy"), shownCaptions().join("\n"), "Captions");
}

find("copy").addEventListener("click", copyCaptions);

function showCaptions() {
  if (!photo || editing) return;
  const regions = shownRegions(), rows = regions.map(makeRow);
  overlay.show({ ...photo, regions }, rows.map((row, region) => ({ element: row, region })));
  find("captions").replaceChildren(...rows);
  find("threshold-value").textContent = percent(slider.value / 100);
  find("count").textContent = regions.length ? `${regions.length} of ${plural(photo.regions.length, "region")}`
    : photo.regions.length ? "Nothing so likely was found. Pull the slider to the left for what is less likely."
    : "Nothing was found in this photo.";
  find("columns").hidden = !regions.length || photo.corrected;
}

function makeRow({ caption, confidence, score, sure = true }, number) {
  const row = element("li"), button = element("button", "", "caption"), key = element("i", "", "key");
  key.style.setProperty("--colour", colour(number));
  button.append(key, makeWords(element("span", caption), sure));
  for (const figure of photo.corrected ? [] : [confidence, score]) {
    button.append(element("small", figure === undefined ? "" : percent(figure)));
  }
  row.append(button);
  if (server.folder) row.append(makeLikeButton(caption, number));
  return row;
}

function makeLikeButton(caption, number) {
  const button = element("button", "", "similar");
  button.ariaLabel = `Find photos with a region like: ${caption}`;
  button.title = "Find others like it";
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    overlay.onPick(number);
  });
  return button;
}

/** To the next caption, or the one before. */
export function moveAmongCaptions(step) {
  const rows = [...document.querySelectorAll("[role=tabpanel]:not([hidden]) :is(.caption, .segment)")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

slider.addEventListener("input", showCaptions);

// --- a sentence, and a thing to find

const asks = { align: find("align-panel"), find: find("find-panel") };

function forgetAnswers() {
  for (const panel of Object.values(asks)) {
    panel.querySelector("input").value = "";
    panel.answer = null;
    panel.querySelector(".sentence").replaceChildren();
    panel.querySelector(".unknown").textContent = "";
  }
  find("places").replaceChildren();
}

function showAnswer(panel) {
  if (!panel.answer) return overlay.show({ ...photo, regions: [] }, []);
  const { regions, words, unknown } = panel.answer;
  overlay.show({ ...photo, regions }, words);
  panel.querySelector(".unknown").textContent =
    unknown?.length ? `Words that the model does not know: ${unknown.join(", ")}` : "";
}

/** What a panel's form asks the server; `read` shows the answer in words, and gives regions and words to link. */
function listenTo(panel, ask, read) {
  panel.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = panel.querySelector("input").value.trim(), asked = photo;
    if (!text) return;
    panel.ariaBusy = "true";
    stage.classList.add("busy");
    try {
      const answer = await ask(photo, text, { signal: pending.signal });
      if (asked !== photo) return;
      forgive();
      panel.answer = { ...read(answer, panel.querySelector(".sentence")), unknown: answer.unknown };
      showAnswer(panel);
    } catch (error) {
      complain(error);
    } finally {
      panel.ariaBusy = "false";
      stage.classList.remove("busy");
    }
  });
}

listenTo(asks.align, api.align, (answer, line) => {
  const { regions, segments } = readAlignment(answer.segments), words = segments.map(makeSegment);
  line.replaceChildren(...words.flatMap(({ element: segment }) => [segment, " "]));
  say(segments.map(({ words: said }) => said.map(([word]) => word).join(" ")).join(", "));
  return { regions, words };
});

listenTo(asks.find, api.locate, ({ here, phrase, regions }, line) => {
  const found = here ? regions : [], rows = found.map(makePlace);
  line.textContent = here ? `“${phrase}” is here:` : `“${phrase}” is not here, as far as the model can tell.`;
  find("places").replaceChildren(...rows);
  say(line.textContent);
  return { regions: found, words: rows.map((row, region) => ({ element: row, region })) };
});

function makePlace({ caption, score }, number) {
  const row = element("li"), button = element("button", "", "caption"), key = element("i", "", "key");
  key.style.setProperty("--colour", colour(number));
  button.append(key, element("span", caption), element("small", percent(score)));
  row.append(button);
  return row;
}

// --- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];
const panelOf = (tab) => find(tab.getAttribute("aria-controls"));

function choose(name) {
  const tab = find(`tab-${name}`);
  if (editing && name !== "captions" && !leave()) return;
  for (const one of tabs) {
    one.ariaSelected = `${one === tab}`;
    one.tabIndex = one === tab ? 0 : -1;
    panelOf(one).hidden = one !== tab;
  }
  if (name === "captions") showCaptions();
  else showAnswer(asks[name]);
}

for (const tab of tabs) {
  tab.addEventListener("click", () => {
    choose(tab.id.slice("tab-".length));
    panelOf(tab).querySelector("form.ask input")?.focus();
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation(); // no step to the next photo
    const there = tabs.filter((one) => !one.hidden), at = there.indexOf(tab) + step;
    const to = there[(at + there.length) % there.length];
    choose(to.id.slice("tab-".length));
    to.focus();
  });
}

api.has("/api/find").then((here) => { find("tab-find").hidden = !here; });

// --- corrections

function startEditing() {
  editing = true;
  const regions = shownRegions();
  overlay.show({ ...photo, regions: [] }, []);
  editor.begin(photo, regions);
  show();
}

function stopEditing() {
  if (!editing) return;
  editing = false;
  editor.end();
  show();
  showCaptions();
}

function show() {
  find("editing").hidden = !editing;
  find("looking").hidden = editing;
  stage.classList.toggle("editing", editing);
  find(editing ? "add" : "correct").focus({ preventScroll: true });
}

/** Whether nothing would be lost, or may be; corrections end with it. */
export function leave() {
  if (editing && editor.changed() && !confirm("Discard your corrections?")) return false;
  stopEditing();
  return true;
}

export const isEditing = () => editing;

async function save() {
  const regions = editor.result();
  if (!regions) return complain(new api.ApiError("A region has no words.", "Say what it is, or delete it."));
  await store(regions, "Saved", "Your regions stay on this page until you leave it.");
}

/** Saves regions; what cannot be saved is not lost. */
async function store(regions, done, hint) {
  try {
    await api.save(photo, regions);
    showNews({ regions, corrected: true, replaced: false }, done);
  } catch (error) {
    complain(new api.ApiError(error.message, [error.hint, hint].filter(Boolean).join(". ")));
  }
}

function showNews(news, done) {
  forgive();
  Object.assign(photo.found, news);
  Object.assign(photo, photo.found);
  find("forgotten").hidden = true;
  stopEditing();
  fill();
  say(done);
}

let deleted = null; // the regions of a correction that was deleted

find("forget").addEventListener("click", async () => {
  const { regions } = photo;
  try {
    const { regions: found, corrected } = await api.forget(photo);
    deleted = regions;
    showNews({ regions: found, corrected }, "The correction is deleted");
    find("forgotten").hidden = false;
    find("restore").focus();
  } catch (error) {
    complain(error);
  }
});
find("restore").addEventListener("click", () => store(deleted.map(({ xyxy, caption }) => ({ xyxy, caption })), "Saved again"));

/** Takes back the last change of the regions; in words, the browser does it. */
export function undo(event) {
  if (event.target.matches("input")) return;
  event.preventDefault();
  editor.undo();
}

find("correct").addEventListener("click", startEditing);
find("cancel").addEventListener("click", leave);
find("add").addEventListener("click", editor.addInTheMiddle);
find("undo").addEventListener("click", editor.undo);
find("editing").addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
addEventListener("beforeunload", (event) => { if (editing && editor.changed()) event.preventDefault(); });

// --- larger

/** The photo alone on the screen, or back. */
export function fullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else find("viewer").requestFullscreen?.().catch(() => say("The browser does not let the page fill the screen"));
}

find("full").addEventListener("click", fullScreen);
find("full").hidden = !document.fullscreenEnabled;

zoom.onEnlarge(() => {
  const large = photo?.id && api.largeImage(photo.id);
  if (!large || picture.src.endsWith(large)) return;
  const sharper = new Image(), asked = photo;
  sharper.src = large;
  sharper.decode().then(() => { if (asked === photo) picture.src = large; }, () => null);
});

find("play").addEventListener("click", async () => {
  const { play } = await import("./film.js");
  play(api.video(photo.id), photo.time);
});
