// What a page measures, for layout_test.go to judge. It is an expression.
(() => {
  const hidden = (e) => e.closest("defs, title, head, style") !== null || e.getClientRects().length === 0;
  const name = (e) => e.tagName + (e.getAttribute("class") ? "." + e.getAttribute("class").replaceAll(" ", ".") : "");
  const box = (e) => { const r = e.getBoundingClientRect(); return {X: r.x, Y: r.y, Width: r.width, Height: r.height}; };
  const scrolls = (e) => { for (; e; e = e.parentElement) { if (getComputedStyle(e).overflowX !== "visible") return true; } return false; };

  // The colours behind an element: of what it is drawn on, and of a pattern on that.
  const behind = (e) => {
    const colors = [];
    const cpu = e.closest(".cpu");
    if (cpu) {
      const fill = getComputedStyle(cpu.querySelector(".is")).fill;
      if (cpu.querySelector(".hatch")) colors.push(getComputedStyle(document.querySelector("#hatch .line")).stroke);
      if (cpu.querySelector(".dots")) colors.push(getComputedStyle(document.querySelector("#dots .dot")).fill);
      if (fill !== "none") return [fill, ...colors];
    }
    for (let a = e; a; a = a.parentElement) {
      const color = getComputedStyle(a).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return [color, ...colors];
    }
    return ["rgb(255, 255, 255)", ...colors];
  };

  const width = document.documentElement.clientWidth; // innerWidth would grow with the content, on a phone
  const m = {Width: width, ScrollWidth: document.documentElement.scrollWidth, Beyond: [], Texts: [], Threads: []};
  for (const e of document.body.querySelectorAll("*")) {
    if (hidden(e)) continue;
    const r = e.getBoundingClientRect();
    if ((r.right > width + 0.5 || r.left < -0.5) && !scrolls(e)) m.Beyond.push(name(e));
    const own = [...e.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data.trim()).join(" ").trim();
    if (own === "") continue;
    const style = getComputedStyle(e), svg = e.closest("svg");
    m.Texts.push({
      Where: name(e), Text: own.slice(0, 40), Color: svg ? style.fill : style.color, Behind: behind(e),
      Size: parseFloat(style.fontSize) * (svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1),
    });
  }
  for (const e of document.querySelectorAll("g[data-cpu]")) {
    m.Threads.push({CPU: Number(e.dataset.cpu), Box: box(e.querySelector(".is")), Texts: [...e.querySelectorAll("text")].map(box)});
  }
  return m;
})()
