// Finds pages by a pasted error text. What an entry says a log prints is looked for in the text first; words only rank the rest.
"use strict";

const QUOTES = /[`"‘’“”´]/g;
const WORD = /\p{Script=Han}+|[\p{L}\p{N}]+(?:[._-][\p{L}\p{N}]+)*/gu;
const MOST = 8; // results
const OTHER = 0.6; // what the words of a page count that is no entry
const SHARE = 0.4; // of the best result's points that a further one needs
const FITS = 0.5; // share of a text's weight that the best page must hold, when no literal text was found

const isEntry = (page) => page.a.startsWith("entries/");
const normal = (text) => text.replace(QUOTES, "'").toLowerCase().split(/\s+/).join(" ").trim();

// Words, the parts of joined words, and pairs of Chinese characters.
function words(text) {
  const found = [];
  for (const [run] of text.toLowerCase().matchAll(WORD)) {
    if (/\p{Script=Han}/u.test(run)) {
      const signs = [...run];
      if (signs.length === 1) found.push(run);
      for (let at = 0; at + 1 < signs.length; at++) found.push(signs[at] + signs[at + 1]);
      continue;
    }
    found.push(run);
    const parts = run.split(/[._-]/);
    if (parts.length > 1) found.push(...parts);
  }
  return found;
}

// An expression that only Python reads is left out; its words still count.
function compiled(text) {
  try {
    return [new RegExp(text, "i")];
  } catch {
    return [];
  }
}

function prepare(rows) {
  const seenIn = new Map();
  const pages = rows.map((row) => {
    const counts = new Map();
    const add = (text, weight) => words(text).forEach((word) => counts.set(word, (counts.get(word) || 0) + weight));
    add(row.w, 1);
    add(row.t, 3);
    row.s.forEach((text) => add(text, 2));
    for (const word of counts.keys()) seenIn.set(word, (seenIn.get(word) || 0) + 1);
    const length = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const patterns = row.r.flatMap(compiled);
    return { ...row, counts, length, patterns, literals: row.s.map(normal), whole: normal(row.w) };
  });
  const mean = pages.reduce((sum, page) => sum + page.length, 0) / pages.length;
  const rare = (word) => Math.log(1 + (pages.length - (seenIn.get(word) || 0) + 0.5) / ((seenIn.get(word) || 0) + 0.5));
  return { pages, mean, rare };
}

// The longest text of the page that the query holds; or the query itself, when the page's own texts hold it.
function literal(page, asked, lines) {
  let best = "";
  page.literals.forEach((text, at) => {
    if (text.length > best.length && asked.includes(text)) best = page.s[at];
    else if (asked.length >= 6 && text.includes(asked) && asked.length > best.length) best = page.s[at];
  });
  page.patterns.forEach((pattern) => {
    for (const line of lines) {
      const hit = pattern.exec(line);
      if (hit && hit[0].length > best.length) best = hit[0];
    }
  });
  return best;
}

function find(index, text) {
  const asked = normal(text);
  if (!asked) return { fits: true, hits: [] };
  const lines = [text.replace(/\s+/g, " "), ...text.split("\n")].map((line) => line.slice(0, 2000));
  const wanted = [...new Set(words(text))].slice(0, 400);
  const weight = wanted.reduce((sum, word) => sum + index.rare(word), 0) || 1;
  const scored = index.pages.map((page) => {
    let points = 0;
    let held = 0;
    for (const word of wanted) {
      const count = page.counts.get(word);
      if (!count) continue;
      points += (index.rare(word) * count * 2.2) / (count + 1.2 * (0.25 + (0.75 * page.length) / index.mean));
      held += index.rare(word);
    }
    return { page, points, held: held / weight, sure: literal(page, asked, lines) };
  });
  const most = Math.max(...scored.map((one) => one.points), 1e-9);
  for (const one of scored) {
    one.points *= (isEntry(one.page) ? 1 : OTHER) / most;
    if (asked.length >= 6 && one.page.whole.includes(asked)) one.points += 0.5;
    if (one.sure) one.points += 1 + one.sure.length / 100;
  }
  scored.sort((one, other) => other.points - one.points);
  const hits = scored.filter((one) => one.points >= SHARE * scored[0].points && one.held > 0).slice(0, MOST);
  return { fits: hits.some((one) => one.sure || one.held >= FITS), hits };
}

// What an entry or a page is about; of a long page the words around the rarest word that was asked for, below its title.
function excerpt(index, page, text) {
  const known = [...new Set(words(text))].filter((word) => page.counts.has(word)).sort((one, other) => index.rare(other) - index.rare(one));
  const at = known.length ? page.w.toLowerCase().indexOf(known[0], page.t.length) : -1;
  if (at < 0 || isEntry(page)) return page.d;
  const start = Math.max(page.w.indexOf(" ", Math.max(page.t.length, at - 60)) + 1, 0);
  const end = page.w.lastIndexOf(" ", start + 180);
  return `… ${page.w.slice(start, end > start ? end : undefined)} …`;
}

function element(name, text, parent, kind) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.append(made);
  return made;
}

function show(index, text, root) {
  const { fits, hits } = find(index, text);
  const list = document.getElementById("find-hits");
  const state = document.getElementById("find-state");
  list.replaceChildren();
  if (!text.trim()) state.textContent = "\u00a0";
  else if (!hits.length) state.textContent = "Nothing here fits.";
  else state.textContent = fits ? `${hits.length} found, best first.` : "Nothing here fits. The nearest by words:";
  for (const { page, sure } of hits) {
    const item = element("li", "", list);
    element("a", page.t, item).href = root + page.a;
    if (page.k) element("small", page.k, item, `severity ${page.k}`);
    element("p", excerpt(index, page, text), item);
    if (sure) element("code", sure, element("p", "It prints ", item));
  }
}

async function start() {
  const form = document.getElementById("find");
  const field = document.getElementById("find-text");
  const state = document.getElementById("find-state");
  state.textContent = "Loading …";
  let index;
  try {
    const answer = await fetch(form.dataset.index);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    index = prepare(await answer.json());
  } catch (error) {
    state.textContent = `The search could not be loaded: ${error.message}`;
    return;
  }
  const update = () => show(index, field.value, form.dataset.root);
  field.value = new URLSearchParams(location.search).get("q") || field.value;
  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.findPages = (text) => find(index, text).hits.map((hit) => hit.page.a);
  update();
  if (!field.value) field.focus();
}

start();
