// Heat strips: rows are GPUs, columns are time. One fetch serves both canvases of a run.
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const MARKS = 5; // pixels of the line of step marks
const PIXELS = { small: { least: 1, most: 10, all: 96 }, large: { least: 2, most: 16, all: 256 } };

const held = new WeakMap(); // figure -> { etag, data, cursor }

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

function colour(level) {
  const place = Math.min(1, Math.max(0, level)) * (STOPS.length - 1);
  const first = Math.min(STOPS.length - 2, Math.floor(place));
  return STOPS[first].map((value, channel) => value + (place - first) * (STOPS[first + 1][channel] - value));
}

export async function drawStrips(root, now) {
  for (const figure of root.querySelectorAll("[data-strip]")) {
    const state = held.get(figure) ?? { etag: "", data: null, cursor: null };
    held.set(figure, state);
    try {
      const response = await fetch(figure.dataset.strip, { headers: state.etag ? { "If-None-Match": state.etag } : {}, cache: "no-store" });
      if (response.status === 200) {
        state.etag = response.headers.get("ETag") ?? "";
        const data = await response.json();
        state.data = { ...data, cells: { power: bytes(data.power), busy: bytes(data.busy) } };
      }
    } catch { continue; }
    if (state.data) paintAll(figure, state);
    listen(figure, state);
  }
}

function paintAll(figure, state) {
  for (const canvas of figure.querySelectorAll("canvas")) paint(canvas, state, figure.classList.contains("large") ? PIXELS.large : PIXELS.small);
  const minutes = Math.round((state.data.to - state.data.from) / 60);
  figure.querySelector("[data-from]").textContent = `${minutes} minutes ago`;
  if (state.data.grouped) figure.querySelector("figcaption span").textContent = `${state.data.gpus} GPUs over time; a line is a node and shows its GPU that differs most`;
}

function paint(canvas, state, pixels) {
  const { data, cursor } = state;
  const rows = data.rows.length, columns = data.columns;
  const height = Math.max(pixels.least, Math.min(pixels.most, Math.floor(pixels.all / rows))) * rows + MARKS;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  const ground = getComputedStyle(document.documentElement);
  pen.fillStyle = ground.getPropertyValue("--sheet");
  pen.fillRect(0, 0, canvas.width, MARKS * scale);
  pen.fillStyle = ground.getPropertyValue("--ink");
  for (const step of data.steps) pen.fillRect(Math.floor((step / 1000) * canvas.width), 0, Math.max(1, scale), (MARKS - 1) * scale);
  const image = new ImageData(columns, rows);
  const cells = data.cells[canvas.dataset.what];
  cells.forEach((value, place) => {
    if (value === data.unknown) return; // see-through: the ground of the canvas says "not known"
    const [red, green, blue] = colour(value / data.full);
    image.data.set([red, green, blue, 255], 4 * place);
  });
  const small = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  small.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(small, 0, MARKS * scale, canvas.width, canvas.height - MARKS * scale);
  if (cursor) {
    pen.strokeStyle = "#ffffff";
    pen.lineWidth = 2;
    const width = canvas.width / columns, tall = (canvas.height - MARKS * scale) / rows;
    pen.strokeRect(cursor.column * width, MARKS * scale + cursor.row * tall, width, tall);
  }
}

function say(figure, state) {
  const { data, cursor } = state;
  const place = cursor.row * data.columns + cursor.column;
  const part = (name, words) => (data.cells[name][place] === data.unknown ? `${words} not known` : `${words} ${Math.round((100 * data.cells[name][place]) / data.full)} %`);
  const at = new Date(1000 * (data.from + ((cursor.column + 0.5) / data.columns) * (data.to - data.from)));
  figure.querySelector("output").textContent = `${data.rows[cursor.row]}, ${at.toLocaleTimeString([], { hour12: false })}: ${part("power", "power")}, ${part("busy", "utilization")}`;
}

function listen(figure, state) {
  if (state.listens) return;
  state.listens = true;
  const show = (row, column) => {
    if (!state.data?.rows.length) return;
    state.cursor = { row: Math.max(0, Math.min(state.data.rows.length - 1, row)), column: Math.max(0, Math.min(state.data.columns - 1, column)) };
    paintAll(figure, state);
    say(figure, state);
  };
  for (const canvas of figure.querySelectorAll("canvas")) {
    canvas.addEventListener("pointermove", (event) => {
      if (!state.data) return;
      const box = canvas.getBoundingClientRect();
      show(
        Math.floor(((event.clientY - box.top - MARKS) / (box.height - MARKS)) * state.data.rows.length),
        Math.floor(((event.clientX - box.left) / box.width) * state.data.columns),
      );
    });
    canvas.addEventListener("pointerleave", () => { state.cursor = null; if (state.data) paintAll(figure, state); });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step || !state.data) return;
      event.preventDefault();
      const from = state.cursor ?? { row: 0, column: state.data.columns };
      show(from.row + step[0], from.column + step[1]);
    });
  }
  new ResizeObserver(() => { if (state.data) requestAnimationFrame(() => paintAll(figure, state)); }).observe(figure);
}
