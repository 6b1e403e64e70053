// Step, throughput, loss and power over time, drawn by uPlot.
const held = new WeakMap(); // container -> { etag, charts }
const HEIGHT = 180;

export async function drawPlots(root) {
  const container = root.querySelector("[data-plots]");
  if (!container) return;
  const state = held.get(container) ?? { etag: "", charts: new Map() };
  if (!held.has(container)) {
    held.set(container, state);
    new ResizeObserver(() => { for (const { chart, figure } of state.charts.values()) chart.setSize({ width: room(figure), height: HEIGHT }); }).observe(container);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const { chart } of state.charts.values()) chart.redraw(); });
  }
  try {
    const response = await fetch(container.dataset.plots, { headers: state.etag ? { "If-None-Match": state.etag } : {}, cache: "no-store" });
    if (response.status !== 200) return;
    state.etag = response.headers.get("ETag") ?? "";
    const { now, plots } = await response.json();
    state.now = now;
    for (const plot of plots) put(container, state, plot);
    for (const [title, { chart, figure }] of state.charts) {
      if (plots.some((plot) => plot.title === title)) continue;
      chart.destroy();
      figure.remove();
      state.charts.delete(title);
    }
  } catch { /* the next look comes */ }
}

const ink = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name);
const room = (figure) => Math.max(200, figure.clientWidth - 20);
const short = (number) => number.toLocaleString("en", { maximumSignificantDigits: 4 });

function put(container, state, plot) {
  const data = [plot.at, plot.values];
  let known = state.charts.get(plot.title);
  if (known) known.chart.setData(data);
  else {
    const figure = document.createElement("figure");
    figure.append(Object.assign(document.createElement("figcaption")));
    container.append(figure);
    known = { figure, chart: new uPlot(options(figure, state), data, figure) };
    state.charts.set(plot.title, known);
  }
  const latest = plot.values.findLast((value) => value !== null);
  known.figure.querySelector("figcaption").textContent = `${plot.title}: ${short(latest)} now`;
}

function options(figure, state) {
  const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: room(figure),
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    scales: { x: { range: (chart, least) => [least, Math.max(state.now, least + 60)] } }, // a standstill is an empty end
    axes: [
      { ...axis, space: 70, size: 28, values: "{HH}:{mm}" },
      { ...axis, size: 56, values: (chart, values) => values.map((value) => short(value)) },
    ],
    series: [{}, { stroke: ink("--link"), width: 1.5, points: { show: false }, spanGaps: false }],
  };
}
