// Fetches this same page again and again, puts in what changed, and says so when the daemon is lost.
import { drawStrips } from "./strip.js";
import { drawPlots } from "./plots.js";

const body = document.body;
const pollMilliseconds = 1000 * Number(body.dataset.poll);
const rate = Number(body.dataset.rate); // seconds of the daemon's clock in a second of ours
const HIDDEN_POLLS = 6; // a page that nobody looks at asks that many times more rarely

let clock = { daemon: Number(body.dataset.now), here: performance.now() };
let etag = "";
let answeredAt = performance.now();
let isLost = false;

const now = () => clock.daemon + ((performance.now() - clock.here) / 1000) * rate;

function spoken(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m ${two(total % 60)} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${two(Math.floor((total % 3600) / 60))} m`;
  return `${Math.floor(total / 86400)} d ${two(Math.floor((total % 86400) / 3600))} h`;
}

function showMoments() {
  const today = new Date(now() * 1000).toDateString();
  for (const element of document.querySelectorAll("time[data-at]")) {
    const at = new Date(Number(element.dataset.at) * 1000);
    const day = at.toDateString() === today ? "" : `${at.toLocaleDateString([], { weekday: "short", month: "short", day: "numeric" })} `;
    element.textContent = day + at.toLocaleTimeString([], { hour12: false });
    element.title = at.toISOString().replace("T", " ").slice(0, 19) + " UTC";
  }
}

function tick() {
  const moment = now();
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const text = spoken(Math.abs(moment - Number(element.dataset.ago)));
    if (element.textContent !== text) element.textContent = text;
  }
  showLost(moment);
}

function showLost(moment) {
  const silent = (performance.now() - answeredAt) / 1000;
  const seen = document.querySelector("#seen");
  const age = seen ? moment - Number(seen.querySelector("time").dataset.ago) : 0;
  let words = "";
  if (silent > Math.max(4, (2.5 * pollMilliseconds) / 1000) * (document.hidden ? HIDDEN_POLLS : 1))
    words = `No data for ${spoken(silent)}: the daemon does not answer. What you see is old.`;
  else if (seen && age > Number(seen.dataset.late))
    words = `The daemon answers, but its last look at the runs was ${spoken(age)} ago. What you see is old.`;
  const banner = document.querySelector("#lost");
  isLost = words !== "";
  body.classList.toggle("is-lost", isLost);
  banner.hidden = !isLost;
  if (!isLost) banner.replaceChildren();
  else if (!banner.firstChild) {
    // said once aloud; the seconds tick for the eye only
    const aloud = Object.assign(document.createElement("span"), { className: "hide", textContent: words });
    const shown = document.createElement("span");
    shown.setAttribute("aria-hidden", "true");
    banner.append(aloud, shown);
  }
  if (isLost) banner.lastChild.textContent = words;
}

const keepsItsOwn = (node) => node instanceof Element && node.matches("input:not([type=hidden]), select, canvas, output, [data-plots], [data-from]");

function put(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  document.title = fresh.title;
  const icon = fresh.querySelector("link[rel=icon]").getAttribute("href");
  const link = document.querySelector("link[rel=icon]");
  if (link.getAttribute("href") !== icon) link.setAttribute("href", icon);
  const options = {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old) => !keepsItsOwn(old),
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")) && name !== "style",
    },
  };
  for (const place of ["main", "header.top"]) {
    Idiomorph.morph(document.querySelector(place), fresh.querySelector(place).innerHTML, options);
  }
  afterwards();
}

function afterwards() {
  showMoments();
  tick();
  remembered();
  drawStrips(document, now);
  drawPlots(document);
}

async function poll() {
  try {
    const response = await fetch(location.href, {
      headers: { Accept: "text/html", ...(etag ? { "If-None-Match": etag } : {}) },
      cache: "no-store",
      signal: AbortSignal.timeout(10_000),
    });
    if (response.redirected) return location.reload(); // the session is over: to the login
    if (response.status === 404) return location.reload(); // a run that is watched no more says so
    const stamp = Number(response.headers.get("Runwatch-Now"));
    if (stamp && (response.status === 304 || response.ok)) {
      clock = { daemon: stamp, here: performance.now() };
      if (response.status !== 304) {
        put(await response.text());
        etag = response.headers.get("ETag") ?? "";
      }
      answeredAt = performance.now();
    }
  } catch {
    // the banner tells; the next look comes
  }
  tick();
  setTimeout(poll, pollMilliseconds * (document.hidden ? HIDDEN_POLLS : 1));
}

// -- the name that stands beside an acknowledgement is typed once

function remembered() {
  let name = "";
  try { name = localStorage.getItem("runwatch-name") ?? ""; } catch { return; }
  for (const input of document.querySelectorAll("input[data-remember]")) if (!input.value && input !== document.activeElement) input.value = name;
}

document.addEventListener("submit", (event) => {
  const input = event.target.querySelector("input[data-remember]");
  try { if (input?.value) localStorage.setItem("runwatch-name", input.value); } catch { /* private browsing */ }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });

afterwards();
setInterval(tick, 1000);
poll();
