// The page is whole without this script: it draws the timelines, and keeps the page
// up to date.
"use strict";
(() => {
  const element = (tag, name, text) => {
    const e = document.createElement(tag);
    e.className = name;
    e.textContent = text ?? "";
    return e;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const url = (path, overlay) => path + "?overlay=" + encodeURIComponent(overlay);

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
    let free = 0;
    for (const m of marks) {
      const x = Math.round(u.valToPos(m.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.globalAlpha = 0.35;
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      ctx.globalAlpha = 1;
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
  };

  const plot = (f, index, first) => {
    const band = f.timeline.bands[index];
    const axis = (more) => ({ stroke: () => colour("--faint"), grid: { stroke: () => colour("--edge"), width: 1 }, ticks: { stroke: () => colour("--edge"), width: 1 }, ...more });
    const series = band.series.map((s, k) => ({
      label: s.name, stroke: () => colour(`--s${first + k}`), fill: () => colour(`--s${first + k}`), width: 1, points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }),
      value: (u, _v, _s, i) => f.timeline.bands[index].series[k].values[i ?? f.timeline.times.length - 1] ?? "–",
    }));
    const marked = band.marks.length > 0 || index > 0;
    const options = {
      width: f.figure.clientWidth - 24, height: index ? 200 : 130, tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
      padding: [marked ? 22 : 8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, Math.max(3, Math.ceil((max ?? 0) * 1.08))] } },
      axes: [
        axis({ values: [[3600 * 24, "{D} {MMM}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "\n{D} {MMM}", null, null, null, null, null, 1], [60, "{HH}:{mm}", "\n{D} {MMM}", null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] }),
        axis({ size: 44, incrs: [1, 2, 5].flatMap((n) => [n, n * 10, n * 100, n * 1000, n * 10000]).sort((a, b) => a - b) }),
      ],
      cursor: { sync: { key: "muster" }, drag: { x: true, y: false } },
      series: [{ value: (u, v) => (v == null ? "now" : uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}")(uPlot.tzDate(new Date(v * 1000), "Etc/UTC"))), label: "UTC" }, ...series.reverse()],
      hooks: {
        draw: [(u) => drawMarks(u, f.timeline.bands[index].marks)],
        setCursor: [(u) => pointAt(u, f, index)],
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
    u.root.setAttribute("aria-label", `${f.overlay}: ${band.title}`);
    const pointed = element("p", "pointed", "");
    if (marked) f.figure.append(pointed);
    f.pointed.push(pointed);
    return u;
  };

  const read = async (overlay) => {
    const answer = await fetch(url("timeline.json", overlay), { cache: "no-store" });
    return answer.ok ? answer.json() : null;
  };

  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      for (const u of figures.get(target)?.plots ?? []) {
        const width = target.clientWidth - 24;
        if (width > 0 && width !== u.width) u.setSize({ width, height: u.height });
      }
    }
  });

  const build = async (figure) => {
    const overlay = figure.dataset.overlay;
    const timeline = await read(overlay);
    if (!timeline) return;
    const f = { figure, overlay, timeline, plots: [], pointed: [] };
    figure.classList.add("drawn");
    let first = 0;
    timeline.bands.forEach((band, i) => {
      f.plots.push(plot(f, i, first));
      first += band.series.length;
    });
    figures.set(figure, f);
    widths.observe(figure);
  };

  const buildAll = async () => {
    if (typeof uPlot === "undefined") return;
    for (const u of plots()) u.destroy();
    widths.disconnect();
    figures.clear();
    await Promise.all([...document.querySelectorAll("#lines figure")].map(build));
    document.getElementById("zoom").hidden = figures.size === 0;
    show();
    document.documentElement.dataset.drawn = String(plots().length);
  };

  const update = async (f) => {
    const timeline = await read(f.overlay);
    if (!timeline) return;
    f.timeline = timeline;
    setting = true;
    f.plots.forEach((u, i) => u.setData(columns(timeline, timeline.bands[i]), false));
  };

  // What the server has rendered last, by id: the page is touched only where that has changed.
  const shown = new Map();
  const overlaysOf = (doc) => [...doc.querySelectorAll("#lines figure")].map((f) => f.dataset.overlay).join("\n");
  const replace = (old, fresh) => {
    const open = new Map([...old.querySelectorAll("details[id]")].map((d) => [d.id, d.open]));
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const again = focused && (focused.closest("details")?.id ?? focused.getAttribute("href"));
    old.className = fresh.className;
    old.innerHTML = fresh.innerHTML;
    for (const d of old.querySelectorAll("details[id]")) d.open = open.get(d.id) ?? false;
    if (again && focused !== old) {
      [...old.querySelectorAll("summary, a")].find((e) => (e.closest("details")?.id ?? e.getAttribute("href")) === again)?.focus();
    }
  };

  let refreshing = false, stale = false;
  const refresh = async () => {
    if (refreshing || document.hidden) { stale = true; return; }
    refreshing = true;
    stale = false;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
      if (!answer.ok) return;
      const doc = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = doc.title;
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = doc.getElementById(old.id);
        if (!fresh || shown.get(old.id) === fresh.innerHTML) continue;
        shown.set(old.id, fresh.innerHTML);
        replace(old, fresh);
      }
      if (overlaysOf(doc) !== overlaysOf(document)) {
        document.getElementById("timelines").innerHTML = doc.getElementById("timelines").innerHTML;
        await buildAll();
      } else {
        for (const f of figures.values()) {
          f.figure.querySelector(".summary").textContent = [...doc.querySelectorAll("#lines figure")].find((x) => x.dataset.overlay === f.overlay)?.querySelector(".summary").textContent ?? "";
        }
        await Promise.all([...figures.values()].map(update));
        show();
      }
    } catch { /* the next event tries again */ } finally {
      refreshing = false;
    }
    if (stale) refresh();
  };

  const live = document.getElementById("live");
  const listen = () => {
    const events = new EventSource("events");
    events.addEventListener("open", () => { live.textContent = "live"; live.classList.remove("lost"); refresh(); });
    events.addEventListener("tick", refresh);
    events.addEventListener("error", () => {
      live.textContent = "not live: muster does not answer, what is shown may be old";
      live.classList.add("lost");
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 60000);
    });
  };

  document.addEventListener("click", (e) => {
    const button = e.target.closest("#zoom button");
    if (!button) return;
    window_ = { hours: Number(button.dataset.hours) };
    show();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) refresh(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const u of plots()) u.redraw(); });
  buildAll().then(listen);
})();
