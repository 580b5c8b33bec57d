// Keeps the page up to date. Without this script the page is complete, as of its loading.
"use strict";
(() => {
  // The HTML of each live part as the server rendered it last, by id.
  const shown = new Map();
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
    } catch { /* the next event tries again */ } finally {
      refreshing = false;
    }
    if (stale) refresh();
  };

  // The age of the figures grows also while no tick ends.
  const seen = new WeakMap();
  const units = [[172800, 86400, "days"], [7200, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];
  setInterval(() => {
    const figures = document.querySelector(".as-of[data-age]");
    if (!figures) return;
    if (!seen.has(figures)) seen.set(figures, performance.now());
    const seconds = Number(figures.dataset.age) + (performance.now() - seen.get(figures)) / 1000;
    const [, length, unit] = units.find(([from]) => seconds >= from) ?? units[3];
    figures.querySelector(".age").textContent = `${Math.floor(seconds / length)} ${unit}`;
    document.getElementById("overlay-table").toggleAttribute("data-outdated", seconds > Number(figures.dataset.outdatedAfter));
  }, 1000);

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

  document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) refresh(); });
  listen();
})();
