// Teaching words: name a region, and answer questions about the regions of which the model is least sure.

import * as api from "./api.js";
import * as viewer from "./photo.js";
import { element, find, placeBox, plural } from "./regions.js";
import { complain, forgive, say, server } from "./status.js";

const QUESTIONS = 20;
const LONGEST_WORD = 60;

// --- naming a region

const naming = makeDialog("teach-naming", "Teach a word");
const word = element("input");
const known = element("datalist");
const notIt = makeButton("", () => teach(taughtWord(), "no"));
let region = null;

function buildNaming() {
  const form = element("form");
  const save = element("button", "Teach", "strong");
  const cancel = makeButton("Cancel", () => naming.close());
  const actions = element("p", "", "actions");
  known.id = "taught-words";
  Object.assign(word, { maxLength: LONGEST_WORD, autocomplete: "off", spellcheck: false });
  word.ariaLabel = "What is this?";
  word.placeholder = "What is this? Rex, croissant …";
  word.setAttribute("list", known.id);
  actions.append(save, notIt, cancel);
  form.append(word, known, actions);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (word.value.trim()) teach(word.value, "yes");
  });
  naming.append(form, element("p", "It is used from now on, here, in searches and on the command line.", "note"));
}

const taughtWord = () => region?.taught ? region.name ?? region.caption : "";

async function askForWord(marked) {
  region = marked;
  word.value = "";
  notIt.textContent = `This is not ${taughtWord()}`;
  notIt.hidden = !taughtWord();
  naming.showModal();
  word.focus();
  const { words } = await api.words().catch(() => ({ words: [] }));
  known.replaceChildren(...words.map((one) => Object.assign(element("option"), { value: one.word })));
}

async function teach(said, shows) {
  const photo = viewer.current();
  try {
    const lesson = await api.teach(photo, region.xyxy, said, shows);
    naming.close();
    forgive();
    viewer.again();
    say(learned(lesson));
    showInvitation();
  } catch (error) {
    naming.close();
    complain(error);
  }
}

const learned = ({ word: said, examples, weak }) =>
  `${said}: ${plural(examples, "example")}${weak ? ", a few more would help" : ""}`;

find("stage").addEventListener("contextmenu", (event) => {
  const marked = viewer.marked();
  if (!marked || viewer.isEditing()) return;
  event.preventDefault();
  askForWord(marked);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "t" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement || viewer.isEditing() || document.querySelector("dialog[open]")) return;
  const marked = viewer.marked();
  if (!marked || find("viewer").hidden) return;
  event.preventDefault();
  askForWord(marked);
});

// --- questions

const asking = makeDialog("teach-asking", "Is it, or not?");
const count = element("p", "", "note");
const crop = element("div", "", "crop");
const picture = element("img");
const frame = element("div", "", "region");
const question = element("p", "", "sentence");
const answers = element("p", "", "actions");
let questions = [];
let at = 0;

function buildAsking() {
  const keys = element("p", "", "note");
  keys.textContent = "Keys: Y yes, N no, S skip, Esc ends";
  answers.append(
    makeButton("Yes", () => answer("yes")), makeButton("No", () => answer("no")), makeButton("Skip", next),
  );
  picture.alt = "";
  asking.append(count, crop, question, answers, keys);
  asking.addEventListener("keydown", (event) => {
    const press = { y: () => answer("yes"), n: () => answer("no"), s: next }[event.key.toLowerCase()];
    if (!press || event.ctrlKey || event.metaKey || event.altKey || answers.hidden) return;
    event.preventDefault();
    press();
  });
}

async function ask() {
  try {
    ({ regions: questions } = await api.unsure(QUESTIONS));
  } catch (error) {
    return complain(error);
  }
  at = -1;
  answers.hidden = false;
  asking.showModal();
  next();
}

function next() {
  at += 1;
  const shown = questions[at];
  if (!shown) return finish();
  count.textContent = `${at + 1} of ${questions.length}`;
  question.textContent = `Is this “${shown.word}”?`;
  crop.hidden = false;
  crop.replaceChildren(picture, frame);
  crop.style.aspectRatio = `${shown.width} / ${shown.height}`;
  picture.src = api.image(shown.id);
  placeBox(frame, shown, shown.xyxy);
  answers.querySelector("button").focus();
}

let isSaving = false;

async function answer(shows) {
  if (isSaving) return;
  isSaving = true;
  const { id, xyxy, word: said } = questions[at];
  try {
    say(learned(await api.teach({ id }, xyxy, said, shows)));
    next();
  } catch (error) {
    asking.close();
    complain(error);
  } finally {
    isSaving = false;
  }
}

async function finish() {
  count.textContent = questions.length ? "Thank you. What it knows now:" : "There is nothing to ask.";
  crop.hidden = true;
  crop.replaceChildren();
  answers.hidden = true;
  const { words } = await api.words().catch(() => ({ words: [] }));
  question.replaceChildren(...words.map((one) => element("span", learned(one), "taught")));
}

// --- where it begins

const invitation = makeButton("Answer questions about your words", ask);

async function showInvitation() {
  const { words } = await api.words().catch(() => ({ words: [] }));
  invitation.hidden = !server.folder || !words.length;
}

function makeDialog(id, title) {
  const dialog = element("dialog");
  dialog.id = id;
  dialog.setAttribute("aria-label", title);
  dialog.append(element("h2", title));
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // the page behind has keys of its own
  document.body.append(dialog);
  return dialog;
}

function makeButton(text, act) {
  const button = element("button", text);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

/** Called once the server has said what it is. */
export function start() {
  buildNaming();
  buildAsking();
  invitation.id = "teach-more";
  invitation.hidden = true;
  find("welcome").after(invitation);
  showInvitation();
}
