// What the page says of itself: status for screen readers, problems, and how far the indexing is.

import * as api from "./api.js";
import { find, plural } from "./regions.js";

/** What the server last said of itself. */
export const server = { status: "", folder: null, photos: 0, updates: 0, indexing: null, threshold: 0.3, confidence: 0 };

export function say(text) {
  find("status").textContent = text;
}

export function complain(error) {
  if (error.name === "AbortError") return; // something else was asked for meanwhile
  const problem = find("problem"), [message, hint] = problem.querySelectorAll("strong, span");
  message.textContent = error.message;
  hint.textContent = error.hint ?? "";
  problem.hidden = false;
  say(""); // nothing goes on any more, and the problem is an alert
}

export function forgive() {
  find("problem").hidden = true;
}

find("problem").querySelector("button").addEventListener("click", forgive);

function timeLeft(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return " · about a minute left";
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? ` · about ${minutes} minutes left` : ` · about ${Math.round(minutes / 60)} hours left`;
}

/** How many photos are in the index: not those that are done, but those that a search finds. */
function searchable({ photos }) {
  if (!photos) return "The first ones can be searched in a moment.";
  return `You can search ${photos === 1 ? "the 1 photo that is" : `the ${photos.toLocaleString("en")} that are`} ready.`;
}

function showIndexing({ indexing }) {
  find("indexing").hidden = !indexing;
  if (!indexing) return;
  const { done, total, skipped, seconds_left: seconds } = indexing;
  const bar = find("progress");
  if (total) Object.assign(bar, { max: total, value: done });
  else bar.removeAttribute("value");
  const counted = total ? `${done.toLocaleString("en")} of ${plural(total, "photo")}` : "counting the photos";
  const left = skipped ? ` · ${skipped.toLocaleString("en")} could not be read` : "";
  find("progress-text").textContent =
    `Looking at your photos: ${counted}${timeLeft(seconds)}${left}. ${searchable(server)}`;
}

const NEWS = ["status", "photos", "updates"]; // what changes when there is something new to show
const PAUSES = { starting: 500, indexing: 2000, idle: 5000, hidden: 30000 }; // milliseconds
let lost = false; // the server did not answer
let timer = 0;

/** Asks for the server's health now and then; `changed(server, before)` is told of news. */
export async function watch(changed) {
  try {
    const before = { ...server };
    Object.assign(server, await api.health());
    find("starting").hidden = server.status !== "starting";
    showIndexing(server);
    find("terms").textContent = server.terms ? `The model ${server.model}: ${server.terms}` : "";
    if (lost || (before.problem && !server.problem)) forgive();
    lost = false;
    if (server.problem && server.problem !== before.problem) complain(new api.ApiError(server.problem));
    if (NEWS.some((name) => before[name] !== server[name]) || Boolean(before.indexing) !== Boolean(server.indexing)) {
      changed(before);
    }
  } catch (error) {
    if (!lost) complain(error); // once, not each time
    lost = true;
  }
  clearTimeout(timer);
  const state = server.status === "starting" ? "starting" : document.hidden ? "hidden"
    : server.indexing ? "indexing" : "idle";
  timer = setTimeout(() => watch(changed), PAUSES[state]);
}
