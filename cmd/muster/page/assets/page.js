// The page is whole without this script: it has the timelines drawn, and keeps the page
// up to date.
"use strict";
(() => {
  const read = async (figure) => {
    const answer = await fetch("timeline.json?overlay=" + encodeURIComponent(figure.dataset.overlay), { cache: "no-store" });
    return answer.ok ? answer.json() : null;
  };

  const build = async (figure) => {
    const timeline = await read(figure);
    if (timeline) timelines.add(figure, timeline);
  };

  const buildAll = async () => {
    if (typeof uPlot === "undefined") return;
    timelines.clear();
    await Promise.all([...document.querySelectorAll("#lines figure")].map(build));
    timelines.drawn();
  };

  const update = async (figure) => {
    const timeline = await read(figure);
    if (timeline) timelines.update(figure, timeline);
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
        const fresh = [...doc.querySelectorAll("#lines figure")];
        for (const f of timelines.figures()) {
          f.querySelector(".summary").textContent = fresh.find((x) => x.dataset.overlay === f.dataset.overlay)?.querySelector(".summary").textContent ?? "";
        }
        await Promise.all(timelines.figures().map(update));
        timelines.show();
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

  document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) refresh(); });
  buildAll().then(listen);
})();
