const { least, photos, irregular } = JSON.parse(document.getElementById("data").textContent);
const overview = find("overview"), viewer = find("viewer"), search = find("search");
const byId = new Map(photos.map((photo, number) => [photo.id, number]));
const sliders = { score: find("least-score"), confidence: find("least-confidence") };
const first = { ...least }; // as the page opens
let wanted = []; // the words that are searched for
let found = []; // the numbers of the photos that have them
let current = null; // the number of the photo that is shown, null in the overview
const overlay = new Overlay(find("stage"), find("regions"), find("label"));
let scrolled = 0; // how far, in the overview

const jpeg = (base64) => `data:image/jpeg;base64,${base64}`;

/** The photo itself once the browser has read so far, its thumbnail before. */
function source(number) {
  const block = find(`jpeg-${number}`);
  const whole = block && (block.nextElementSibling || document.readyState !== "loading");
  return jpeg(whole ? block.textContent : photos[number].thumbnail);
}

// --- what is likely, and what is searched for

const likely = (region) => Object.keys(least).every((key) => reaches(region[key], least[key]));
const isFirst = () => Object.keys(least).every((key) => least[key] === first[key]);

/** The regions of a photo that are shown: at first those of every table, later those that are asked for. */
const shownRegions = ({ regions }) => regions.filter(isFirst() ? ({ shown = true }) => shown : likely);

const hasSentence = (photo) => photo.sentence !== undefined;

/** What is said of a photo, each text once: {text, sure}. */
function texts(photo) {
  if (hasSentence(photo)) return [{ text: photo.sentence, sure: photo.sure ?? true }];
  const said = new Map();
  for (const { caption, sure = true } of shownRegions(photo)) said.set(caption, said.get(caption) || sure);
  return [...said].map(([text, sure]) => ({ text, sure }));
}

const describe = (photo) => texts(photo).map(({ text, sure }) => hedged(text, sure)).join(", ")
  || "Nothing likely was found in this photo";

// --- words: the beginning of a word, or the same word in singular and plural

const WORD = /([\p{L}\p{N}]+)/u;
const wordsOf = (text) => text.toLowerCase().split(WORD).filter((_, n) => n % 2);

/** A word, and what it may be the plural of; as `language.object_names.singulars` has it. */
function singulars(word) {
  const found = [word];
  if (Object.hasOwn(irregular, word)) found.push(irregular[word]);
  if (word.endsWith("men")) found.push(`${word.slice(0, -3)}man`);
  if (word.endsWith("ies")) found.push(`${word.slice(0, -3)}y`);
  if (word.endsWith("ves")) found.push(`${word.slice(0, -3)}f`, `${word.slice(0, -3)}fe`);
  if (/(?:ch|sh|s|x|z|o)es$/.test(word)) found.push(word.slice(0, -2));
  if (word.endsWith("s") && !word.endsWith("ss")) found.push(word.slice(0, -1));
  return found;
}

function isSameThing(word, other) {
  const forms = singulars(other);
  return singulars(word).some((form) => forms.includes(form));
}

const fits = (word, start) => word.startsWith(start) || isSameThing(word, start);
const hits = (text, start) => wordsOf(text).some((word) => fits(word, start));

function matches(photo) {
  const all = [...texts(photo).map(({ text }) => text), photo.name].join(" ");
  return wanted.every((start) => hits(all, start));
}

/** A text with the words searched for marked. */
function marked(text) {
  return text.split(WORD).flatMap((piece, n) => {
    const start = n % 2 ? wanted.find((one) => fits(piece.toLowerCase(), one)) : undefined;
    if (start === undefined) return piece;
    const length = piece.toLowerCase().startsWith(start) ? start.length : piece.length;
    return [element("mark", piece.slice(0, length)), piece.slice(length)];
  });
}

/** Puts texts into an element: grey, and said to be so, where the model is not sure. */
function write(target, said) {
  target.replaceChildren(...said.flatMap(({ text, sure }, n) => {
    const words = makeWords("", sure);
    words.prepend(...marked(text));
    return n ? [" · ", words] : [words];
  }));
}

// --- the overview

const cards = photos.map((photo, number) => {
  const card = element("li"), link = element("a"), image = new Image();
  const line = element("p"), name = element("small", baseName(photo.name));
  link.href = `#${photo.id}`;
  Object.assign(image, { loading: "lazy", decoding: "async", src: jpeg(photo.thumbnail) });
  line.ariaHidden = "true"; // the image's alt says it
  link.append(image, line, name);
  card.append(link);
  return { card, link, image, line };
});

function fillCard(number) {
  const { image, line } = cards[number];
  const own = texts(photos[number]);
  const isHit = ({ text }) => wanted.some((start) => hits(text, start));
  image.alt = describe(photos[number]);
  write(line, [...own.filter(isHit), ...own.filter((one) => !isHit(one))]);
}

function filterCards() {
  wanted = wordsOf(search.value);
  found = [...photos.keys()].filter((number) => matches(photos[number]));
  const visible = new Set(found);
  cards.forEach(({ card }, number) => { card.hidden = !visible.has(number); });
  found.forEach(fillCard);
  find("nothing").hidden = found.length > 0;
  find("found").textContent = wanted.length ? `${found.length} of ${photos.length}` : plural(photos.length, "photo");
}

// --- one photo

function makeCaption(region, number) {
  const made = element("button"), key = element("i", "", "key"), words = element("span");
  key.style.setProperty("--colour", colour(number));
  words.append(...marked(region.caption));
  made.append(key, makeWords(words, region.sure ?? true));
  for (const name of ["confidence", "score"]) {
    if (anyHas(name)) made.append(element("small", name in region ? percent(region[name]) : ""));
  }
  return { element: made, region: number };
}

const anyHas = (name) => photos.some((photo) => photo.regions.some((region) => name in region));

function fillViewer() {
  const photo = photos[current];
  const { regions, segments } = photo.segments ? readAlignment(photo.segments) : photo;
  overlay.show({ ...photo, regions }, segments ? segments.map(makeSegment) : regions.map(makeCaption));
  fillSentence(photo);
  fillCaptions(photo);
  overlay.stage.style.setProperty("--ratio", photo.width / photo.height);
  overlay.stage.style.setProperty("--widest", `${2 * photo.width}px`);
  find("photo").src = source(current);
  find("name").textContent = baseName(photo.name);
  find("path").textContent = `${photo.name} · ${photo.width} × ${photo.height}`;
  const at = found.indexOf(current);
  find("place").textContent = at < 0 ? "" : `${at + 1} / ${found.length}`;
  document.title = `${baseName(photo.name)} – RegionTalk`;
  filterRegions();
}

function fillSentence(photo) {
  if (photo.segments) find("sentence").replaceChildren(...overlay.words.flatMap(({ element }) => [element, " "]));
  else write(find("sentence"), hasSentence(photo) ? texts(photo) : []);
  find("sentence").classList.toggle("unsure", photo.sure === false);
  const unknown = photo.unknown ?? [];
  find("unknown").textContent = unknown.length ? `Words that the model does not know: ${unknown.join(", ")}` : "";
  const others = (photo.alternatives ?? []).map((sentence) => {
    const item = element("li");
    write(item, [sentence]);
    return item;
  });
  find("alternatives").hidden = others.length === 0;
  find("alternatives").lastElementChild.replaceChildren(...others);
}

function fillCaptions(photo) {
  find("found-regions").hidden = hasSentence(photo);
  if (hasSentence(photo)) return;
  find("captions").replaceChildren(...overlay.words.map(({ element: caption }) => {
    const item = element("li");
    item.append(caption);
    return item;
  }));
}

function filterRegions() {
  const photo = photos[current];
  for (const [name, slider] of Object.entries(sliders)) {
    slider.value = 100 * least[name];
    slider.nextElementSibling.textContent = percent(least[name]);
  }
  find("photo").alt = describe(photo);
  if (hasSentence(photo)) return;
  const chosen = shownRegions(photo), shown = photo.regions.map((region) => chosen.includes(region));
  shown.forEach((show, number) => {
    overlay.boxes[number].hidden = overlay.words[number].element.parentElement.hidden = !show;
  });
  overlay.placeTags();
  const count = chosen.length;
  find("count").textContent = `${count} of ${plural(shown.length, "region")}`;
  find("all").textContent = count < shown.length ? "Show all" : "Show likely";
  find("all").hidden = count === shown.length && isFirst();
  find("columns").hidden = count === 0;
}

// --- going from one to the other

/** Shows what the address names: `#` and a photo's id, or nothing for the overview. */
function route() {
  const from = current;
  current = photos.length === 1 ? 0 : byId.get(location.hash.slice(1)) ?? null;
  if (from === null) scrolled = scrollY;
  overview.hidden = current !== null;
  viewer.hidden = current === null;
  if (from === null || current === null) filterCards();
  if (current === null) showOverview(from);
  else showPhoto(from);
}

function showOverview(from) {
  document.title = `${plural(photos.length, "photo")} – RegionTalk`;
  if (from === null) return;
  scrollTo(0, scrolled);
  cards[from].link.focus({ preventScroll: true });
  cards[from].card.scrollIntoView({ block: "nearest" });
}

function showPhoto(from) {
  fillViewer();
  scrollTo(0, 0);
  if (from === null) find("name").focus();
}

/** The next photo (step 1) or the one before (step -1) of those that were found, round and round. */
function go(step) {
  const among = found.includes(current) ? found : [...photos.keys()];
  const next = among[(among.indexOf(current) + step + among.length) % among.length];
  location.replace(`#${photos[next].id}`); // so that Back leads to the overview
}

function setLeast(changes) {
  Object.assign(least, changes);
  filterRegions();
}

function openSearch(event) {
  event.preventDefault(); // the key is no part of the words
  location.hash = "";
  setTimeout(() => search.focus()); // once the overview is there
}

const KEYS = { ArrowRight: () => go(1), j: () => go(1), ArrowLeft: () => go(-1), k: () => go(-1) };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "Escape" && current !== null) location.hash = "";
  else if (event.key === "Escape") { search.value = ""; filterCards(); }
  else if (event.key === "/" && !typing && photos.length > 1) openSearch(event);
  else if (current !== null && !typing && photos.length > 1) KEYS[event.key]?.();
});
search.addEventListener("input", filterCards);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && found.length) location.hash = photos[found[0]].id;
});
for (const [name, slider] of Object.entries(sliders)) {
  slider.addEventListener("input", () => setLeast({ [name]: slider.value / 100 }));
}
find("all").addEventListener("click", () => {
  setLeast(find("all").textContent === "Show all" ? { score: 0, confidence: 0 } : first);
});
find("previous").addEventListener("click", () => go(-1));
find("next").addEventListener("click", () => go(1));

// A swipe: a finger moves much further sideways than up or down, on a photo that is not zoomed in.
let touched = null;
overlay.stage.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch" ? event : null; });
overlay.stage.addEventListener("pointerup", (event) => {
  if (!touched || visualViewport.scale > 1.05 || photos.length === 1) return;
  const right = event.clientX - touched.clientX, down = event.clientY - touched.clientY;
  if (Math.abs(right) > 40 && Math.abs(right) > 2 * Math.abs(down)) go(right < 0 ? 1 : -1);
});

history.scrollRestoration = "manual";
if (photos.length === 1) {
  for (const one of [find("back"), ...viewer.querySelectorAll("nav, .keys")]) one.hidden = true;
}
for (const name of ["confidence", "score"]) {
  for (const one of document.querySelectorAll(`.${name}`)) one.hidden = !anyHas(name);
}
find("unsure").hidden = anyHas("confidence");
find("cards").classList.toggle("sentences", photos.some(hasSentence));
find("cards").append(...cards.map(({ card }) => card));
addEventListener("hashchange", route);
document.addEventListener("DOMContentLoaded", () => { if (current !== null) find("photo").src = source(current); });
route();
