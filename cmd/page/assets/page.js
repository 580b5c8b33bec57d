// Keeps the page up to date, and draws its charts. Without this script the page is complete, as of its
// loading.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  // The HTML of each live part as the server rendered it last, by id.
  const shown = new Map();
  const keyOf = (e) => e.closest("details:not(figure details)")?.id || e.getAttribute("href") || e.dataset.copy || e.parentElement?.id;
  const replace = (old, fresh) => {
    const open = new Map([...old.querySelectorAll("details[id]")].map((d) => [d.id, d.open]));
    const focused = old.contains(document.activeElement) && old !== document.activeElement ? document.activeElement : null;
    const again = focused && [focused.tagName, keyOf(focused)];
    const charts = new Map([...old.querySelectorAll("[data-chart].drawn")].map((c) => [c.id, c]));
    old.className = fresh.className;
    old.innerHTML = fresh.innerHTML;
    for (const d of old.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = open.get(d.id);
    for (const c of old.querySelectorAll("[data-chart]")) {
      const drawn = charts.get(c.id);
      if (drawn && drawn.dataset.chart === c.dataset.chart) c.replaceWith(drawn); // with its new data later
    }
    if (again) [...old.querySelectorAll(again[0])].find((e) => keyOf(e) === again[1])?.focus();
  };

  let refreshing = false, waiting = false, lost = 0;
  let title = document.title, icon = document.getElementById("icon").getAttribute("href");
  const refresh = async () => {
    if (refreshing || document.hidden) { waiting = true; return; }
    refreshing = true;
    waiting = false;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
      if (!answer.ok) return;
      const doc = new DOMParser().parseFromString(await answer.text(), "text/html");
      title = doc.title;
      icon = doc.getElementById("icon").getAttribute("href");
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = doc.getElementById(old.id);
        if (!fresh || shown.get(old.id) === fresh.innerHTML) continue;
        shown.set(old.id, fresh.innerHTML);
        replace(old, fresh);
      }
      filter();
      judge();
      draw();
    } catch { /* the next event tries again */ } finally {
      refreshing = false;
    }
    if (waiting) refresh();
  };

  // The age of the figures grows also while no tick ends. Figures that are too old, or a server that does
  // not answer, make everything unknown.
  const seen = new WeakMap();
  const units = [[172800, 86400, "days"], [7200, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];
  const text = (seconds) => {
    const [, length, unit] = units.find(([from]) => seconds >= from) ?? units[3];
    return `${Math.floor(seconds / length)} ${unit}`;
  };
  const announced = document.getElementById("live");
  const announce = (words, isLost) => {
    if (announced.textContent !== words) announced.textContent = words;
    announced.classList.toggle("lost", isLost);
  };
  const judge = () => {
    const figures = document.querySelector(".as-of[data-age]");
    const silent = lost ? (performance.now() - lost) / 1000 : 0;
    let age = silent, outdated = false;
    if (figures) {
      if (!seen.has(figures)) seen.set(figures, performance.now());
      age = Number(figures.dataset.age) + (performance.now() - seen.get(figures)) / 1000;
      figures.querySelector(".age").textContent = text(age);
      outdated = age > Number(figures.dataset.outdatedAfter);
    }
    const stale = outdated || silent > 5;
    const head = document.getElementById("verdict-head");
    head.dataset.text ??= head.textContent;
    const words = stale ? `Unknown: no answer for ${text(age)}` : head.dataset.text;
    if (head.textContent !== words) head.textContent = words;
    document.body.classList.toggle("stale", stale);
    document.title = stale ? `${words} · muster` : title;
    const image = stale ? "assets/icon-unknown.svg" : icon;
    const link = document.getElementById("icon");
    if (link.getAttribute("href") !== image) link.setAttribute("href", image);
    announce(lost ? "not live: muster does not answer" : stale ? "live, but the figures are old" : "live", lost > 0);
  };
  setInterval(judge, 1000);

  const listen = () => {
    const events = new EventSource("events");
    events.addEventListener("open", () => { lost = 0; refresh(); });
    events.addEventListener("tick", refresh);
    events.addEventListener("error", () => {
      lost ||= performance.now();
      judge();
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 60000);
    });
  };

  // The filter of overlays. Folded ones unfold while one of them matches.
  const field = document.getElementById("filter");
  const filter = () => {
    const words = (field?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let all = 0, found = 0;
    for (const row of document.querySelectorAll("tr[data-find]")) {
      row.hidden = !words.every((w) => row.dataset.find.includes(w));
      all++;
      if (!row.hidden) found++;
    }
    if (!field) return;
    document.getElementById("filtered").textContent = words.length ? `${found} of ${all}` : "";
    const fold = document.getElementById("idle");
    if (!fold) return;
    if (words.length) {
      fold.dataset.open ??= String(fold.open);
      fold.open = fold.querySelector("tr[data-find]:not([hidden])") !== null;
    } else if (fold.dataset.open) {
      fold.open = fold.dataset.open === "true";
      delete fold.dataset.open;
    }
  };
  field?.addEventListener("input", filter);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch { // the page is not from a secure address
      const code = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(code);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // Charts.
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const two = (n) => String(n).padStart(2, "0");
  const clock = (seconds) => { const d = new Date(seconds * 1000); return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`; };
  const sum = (...all) => all.every((v) => v === null) ? null : all.reduce((a, v) => a + (v ?? 0), 0);
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  // column returns the values of each chart in drawing order: what lies above covers what lies below.
  const columns = (d) => [
    [d.at, d.pending],
    [d.at, d.wait.map((w) => w === null ? null : w / 60)],
    [d.at, d.at.map((_, i) => sum(d.busy[i], d.idle[i], d.inFlight[i])), d.at.map((_, i) => sum(d.busy[i], d.idle[i])), d.busy, d.max],
  ];
  // alone lists the values without a neighbour: those of commits.
  const alone = (u, s) => {
    const v = u.data[s], found = [];
    for (let i = 0; i < v.length; i++) if (v[i] !== null && (v[i - 1] ?? null) === null && (v[i + 1] ?? null) === null) found.push(i);
    return found;
  };
  const says = (d, i) => {
    const time = `${clock(d.at[i])} UTC`;
    if (d.pending[i] === null) return `${time}: unknown`;
    const total = sum(d.busy[i], d.idle[i], d.inFlight[i]);
    const before = d.orders.filter((o) => o.at > (d.at[i - 1] ?? d.from) && o.at <= d.at[i]).reduce((a, o) => a + o.agents, 0);
    return `${time}: ${plural(d.pending[i], "job")} pending${d.pending[i] ? ` for up to ${text(d.wait[i] ?? 0)}` : ""} · ${d.busy[i]} busy, ${d.idle[i]} idle, ${d.inFlight[i]} in flight: ${plural(total, "agent")}`
      + (d.max[i] === null ? "" : ` of at most ${d.max[i]}`) + (before ? ` · ${before} ordered` : "");
  };

  const build = (box, d) => {
    const image = box.querySelector("img");
    box.replaceChildren();
    if (image) image.hidden = true;
    const keys = document.createElement("ul");
    keys.className = "keys";
    for (const [name, key] of [["pending", "s0"], ["oldest wait", "s4"], ["busy", "s1"], ["idle", "s2"], ["in flight", "s3"], ["max", "max"], ["ordered", "order"]]) {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = key;
      item.append(swatch, name);
      keys.append(item);
    }
    const readout = document.createElement("p");
    readout.className = "readout";
    const area = document.createElement("div");
    area.className = "plots";
    area.tabIndex = 0;
    area.setAttribute("role", "group");
    area.setAttribute("aria-label", `Charts of ${box.dataset.name}. Left and right arrow keys read the values.`);
    const spoken = document.createElement("p");
    spoken.className = "hidden";
    spoken.setAttribute("aria-live", "polite");
    box.append(keys, area, readout, spoken);
    box.classList.add("drawn");

    const chart = { data: d, plots: [] };
    const rest = () => { readout.textContent = `Now, ${says(chart.data, chart.data.at.length - 1)}`; };
    const show = (i) => { if (i === null || i === undefined) rest(); else readout.textContent = says(chart.data, i); };
    const ink = css("--faint"), grid = css("--edge");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, size: 4 }, font: "12px system-ui, sans-serif" };
    const stepped = uPlot.paths.stepped({ align: 1 }), linear = uPlot.paths.linear();
    const series = (colour, fill, paths) => ({ stroke: colour, fill, width: 1, paths, points: { show: true, filter: alone, size: 5, fill: colour, stroke: colour } });
    const lane = 12; // of the orders, below the areas, where no colour hides them
    const orders = (u) => {
      u.ctx.save();
      u.ctx.fillStyle = css("--ink");
      for (const o of chart.data.orders) {
        const x = Math.round(u.valToPos(o.at, "x", true)), y = u.bbox.top + u.bbox.height + 3 * devicePixelRatio;
        u.ctx.beginPath();
        u.ctx.moveTo(x, y);
        u.ctx.lineTo(x - 4.5 * devicePixelRatio, y + 9 * devicePixelRatio);
        u.ctx.lineTo(x + 4.5 * devicePixelRatio, y + 9 * devicePixelRatio);
        u.ctx.closePath();
        u.ctx.fill();
      }
      u.ctx.restore();
    };
    const kinds = [
      ["Pending jobs", 120, [series(css("--s0"), css("--s0"), stepped)]],
      ["Oldest wait, min", 96, [series(css("--s4"), css("--s4"), linear)]],
      ["Agents", 168, [
        series(css("--s3"), css("--s3"), stepped), series(css("--s2"), css("--s2"), stepped), series(css("--s1"), css("--s1"), stepped),
        { ...series(css("--ink"), undefined, stepped), width: 1.5, dash: [6, 4] },
      ]],
    ];
    kinds.forEach(([name, height, drawn], k) => {
      const head = document.createElement("h4");
      head.textContent = name;
      const holder = document.createElement("div");
      area.append(head, holder);
      const last = k === kinds.length - 1;
      chart.plots.push(new uPlot({
        width: area.clientWidth, height: height + (last ? 24 + lane : 0), legend: { show: false }, padding: [6, 24, last ? 0 : 4, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        cursor: { sync: { key: box.id }, drag: { x: false, y: false }, y: false, points: { size: 7 } },
        scales: { x: { range: () => [chart.data.from, chart.data.to] }, y: { range: (u, low, high) => [0, Math.max(1, high ?? 1) * 1.08] } },
        axes: [
          { ...axis, size: last ? 28 + lane : 0, gap: last ? lane : 0, values: last ? (u, all) => all.map((v) => clock(v).slice(0, 5)) : () => [], space: 64, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360].map((minutes) => 60 * minutes) },
          { ...axis, size: 44, space: 28, incrs: k === 1 ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
        ],
        series: [{}, ...drawn],
        hooks: { setCursor: [(u) => { if (u === chart.plots[0]) show(u.cursor.idx); }], draw: last ? [orders] : [] },
      }, columns(d)[k], holder));
    });
    area.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
      const n = chart.data.at.length - 1, u = chart.plots[0];
      let i = u.cursor.idx ?? n;
      if (event.key === "Home") i = 0;
      else if (event.key === "End") i = n;
      else if (step) i = Math.min(n, Math.max(0, i + step));
      else return;
      event.preventDefault();
      u.setCursor({ left: u.valToPos(chart.data.at[i], "x"), top: 10 });
      show(i);
      spoken.textContent = says(chart.data, i);
    });
    area.addEventListener("blur", () => { chart.plots[0].setCursor({ left: -10, top: -10 }); rest(); });
    new ResizeObserver(() => {
      for (const u of chart.plots) if (area.clientWidth > 0 && u.width !== area.clientWidth) u.setSize({ width: area.clientWidth, height: u.height });
    }).observe(area);
    rest();
    box.chart = chart;
    chart.rest = rest;
  };

  let drawing = false, again = false;
  const draw = async () => {
    if (drawing) { again = true; return; }
    drawing = true;
    again = false;
    try {
      for (const box of document.querySelectorAll("[data-chart]")) {
        const answer = await fetch(box.dataset.chart, { cache: "no-store" });
        if (!answer.ok) continue;
        const d = await answer.json();
        if (d.at.length === 0 || !box.isConnected) continue;
        if (!box.chart) { build(box, d); continue; }
        box.chart.data = d;
        const all = columns(d);
        box.chart.plots.forEach((u, k) => u.setData(all[k]));
        if (box.chart.plots[0].cursor.left < 0 || box.chart.plots[0].cursor.left === undefined) box.chart.rest();
      }
    } catch { /* the next tick tries again */ } finally {
      drawing = false;
    }
    if (again) draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const box of document.querySelectorAll("[data-chart].drawn")) build(box, box.chart.data);
  });

  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) refresh(); });
  listen();
  draw();
  judge();
})();
