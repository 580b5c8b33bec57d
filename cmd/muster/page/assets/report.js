// A report is whole without this script: it has the timelines drawn, and opens the
// decision that is linked to.
"use strict";
(() => {
  const open = () => {
    const linked = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (linked instanceof HTMLDetailsElement) { linked.open = true; linked.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  const all = JSON.parse(document.getElementById("data").textContent) ?? [];
  document.querySelectorAll("#lines figure").forEach((figure, i) => timelines.add(figure, all[i]));
  timelines.drawn();
  open();
})();
