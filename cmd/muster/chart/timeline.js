// Draws chart.Timeline, as JSON, with uPlot: for the status page and for reports.
"use strict";
const timelines = (() => {
  const element = (tag, name, text) => {
    const e = document.createElement(tag);
    e.className = name;
    e.textContent = text ?? "";
    return e;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A figure's plots, one for each band; window is the part of time that all show.
  const figures = new Map();
  let window_ = { hours: 0 };
  let setting = false;
  const plots = () => [...figures.values()].flatMap((f) => f.plots);

  const span = () => {
    let from = Infinity, to = -Infinity;
    for (const f of figures.values()) {
      const t = f.timeline.times;
      if (t.length) { from = Math.min(from, t[0]); to = Math.max(to, t[t.length - 1]); }
    }
    if (to - from < 60) from = to - 60;
    return [from, to];
  };

  const show = () => {
    if (!figures.size) return;
    let [min, max] = span();
    if (!Number.isFinite(min)) return;
    if (window_.hours) min = max - window_.hours * 3600;
    if (window_.min) ({ min, max } = window_);
    setting = true;
    for (const u of plots()) u.setScale("x", { min, max });
    queueMicrotask(() => queueMicrotask(() => { setting = false; }));
    for (const b of document.querySelectorAll("#zoom button")) {
      b.setAttribute("aria-pressed", String(!window_.min && Number(b.dataset.hours) === window_.hours));
    }
  };

  // A band's values lie one upon the other: uPlot draws the sums, the highest first.
  const columns = (timeline, band) => {
    const sums = [];
    band.series.forEach((s, k) => {
      sums.push(s.values.map((v, i) => (v === null ? null : v + (k ? sums[k - 1][i] ?? 0 : 0))));
    });
    return [timeline.times, ...sums.reverse()];
  };

  // Marks are lines through the plot, with a number above where there is room.
  const drawMarks = (u, marks) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--ink");
    ctx.lineWidth = ratio;
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    let free = 0, line = -Infinity; // where there is room for the next label, and the last line
    for (const m of marks) {
      const x = Math.round(u.valToPos(m.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      if (x - line >= 4 * ratio) {
        line = x;
        ctx.globalAlpha = 0.35;
        ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        ctx.globalAlpha = 1;
      }
      ctx.beginPath(); ctx.moveTo(x - 4 * ratio, bbox.top - 2 * ratio); ctx.lineTo(x + 4 * ratio, bbox.top - 2 * ratio); ctx.lineTo(x, bbox.top + 5 * ratio); ctx.fill();
      const half = ctx.measureText(m.label).width / 2;
      if (x - half > free) { ctx.fillText(m.label, x, bbox.top - 7 * ratio); free = x + half + 3 * ratio; }
    }
    ctx.restore();
  };

  const pointAt = (u, f, index) => {
    const band = f.timeline.bands[index];
    let best = null, distance = 8;
    for (const m of band.marks) {
      const d = Math.abs(u.valToPos(m.at, "x") - u.cursor.left);
      if (d < distance) { best = m; distance = d; }
    }
    f.pointed[index].textContent = best ? best.text : "";
    u.over.style.cursor = best?.link ? "pointer" : "";
    return best;
  };

  const plot = (f, index, first) => {
    const band = f.timeline.bands[index];
    const axis = (more) => ({ stroke: () => colour("--faint"), grid: { stroke: () => colour("--edge"), width: 1 }, ticks: { stroke: () => colour("--edge"), width: 1 }, ...more });
    const series = band.series.map((s, k) => ({
      label: s.name, stroke: () => colour(`--s${first + k}`), fill: () => colour(`--s${first + k}`), width: 1, points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }),
      value: (u, _v, _s, i) => f.timeline.bands[index].series[k].values[i ?? f.timeline.times.length - 1] ?? "–",
    }));
    const stacked = band.series.length > 1;
    const options = {
      width: f.figure.clientWidth - 24, height: stacked ? 200 : 130, tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
      padding: [stacked ? 22 : 8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, Math.max(3, Math.ceil((max ?? 0) * 1.08))] } },
      axes: [
        axis({ values: [[3600 * 24, "{D} {MMM}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1], [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] }),
        axis({ size: 44, incrs: [1, 2, 5].flatMap((n) => [n, n * 10, n * 100, n * 1000, n * 10000]).sort((a, b) => a - b) }),
      ],
      cursor: { sync: { key: "muster" }, drag: { x: true, y: false } },
      series: [{ value: (u, v) => (v == null ? f.figure.dataset.end ?? "now" : uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}")(uPlot.tzDate(new Date(v * 1000), "Etc/UTC"))), label: "UTC" }, ...series.reverse()],
      hooks: {
        draw: [(u) => drawMarks(u, f.timeline.bands[index].marks)],
        setCursor: [(u) => { pointAt(u, f, index); }],
        setScale: [(u, key) => {
          if (key !== "x" || setting) return;
          const [from, to] = span();
          const { min, max } = u.scales.x;
          window_ = min <= from && max >= to || min === f.timeline.times[0] && max === f.timeline.times.at(-1) ? { hours: 0 } : { hours: 0, min, max };
          show();
        }],
      },
    };
    f.figure.append(element("p", "band-title", band.title));
    setting = true;
    const u = new uPlot(options, columns(f.timeline, band), f.figure);
    u.root.setAttribute("role", "group");
    u.root.setAttribute("aria-label", `${f.timeline.title}: ${band.title}`);
    const pointed = element("p", "pointed", "");
    if (stacked) f.figure.append(pointed);
    f.pointed.push(pointed);
    let pressed = 0;
    u.over.addEventListener("mousedown", (e) => { pressed = e.clientX; });
    u.over.addEventListener("click", (e) => { // one that was no drag
      const link = Math.abs(e.clientX - pressed) < 3 && pointAt(u, f, index)?.link;
      if (link) location.hash = link;
    });
    return u;
  };

  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      for (const u of figures.get(target)?.plots ?? []) {
        const width = target.clientWidth - 24;
        if (width > 0 && width !== u.width) u.setSize({ width, height: u.height });
      }
    }
  });

  // add draws a timeline in a figure, beside what stands in it.
  const add = (figure, timeline) => {
    const f = { figure, timeline, plots: [], pointed: [] };
    figure.classList.add("drawn");
    let first = 0;
    timeline.bands.forEach((band, i) => {
      f.plots.push(plot(f, i, first));
      first += band.series.length;
    });
    figures.set(figure, f);
    widths.observe(figure);
  };

  // drawn is called when figures have been added or removed.
  const drawn = () => {
    document.getElementById("zoom").hidden = figures.size === 0;
    show();
    document.documentElement.dataset.drawn = String(plots().length);
  };

  const update = (figure, timeline) => {
    const f = figures.get(figure);
    if (!f) return;
    f.timeline = timeline;
    setting = true;
    f.plots.forEach((u, i) => u.setData(columns(timeline, timeline.bands[i]), false));
  };

  const clear = () => {
    for (const u of plots()) u.destroy();
    widths.disconnect();
    figures.clear();
  };

  document.addEventListener("click", (e) => {
    const button = e.target.closest("#zoom button");
    if (!button) return;
    window_ = { hours: Number(button.dataset.hours) };
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const u of plots()) u.redraw(); });
  return { add, clear, drawn, show, update, figures: () => [...figures.keys()] };
})();
