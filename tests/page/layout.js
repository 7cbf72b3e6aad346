// Violations of the rules of layout: everything is on the screen, and what is cut has a title.
(() => {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  const named = (it) => `${it.tagName.toLowerCase()} ${it.className} ${(it.innerText ?? "").slice(0, 60)}`;
  // Read by screen readers alone, shown when focused, or drawn by the chart.
  const isAside = (it) => it.closest(".skip, caption, .uplot, svg") || getComputedStyle(it).clipPath !== "none";
  const hasTitle = (it) => it.closest("[title]:not([title=''])") !== null;
  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const it of document.querySelectorAll("body *")) {
    if (!it.checkVisibility() || isAside(it)) continue;
    const { left, right, width: own, height } = it.getBoundingClientRect();
    if (!own || !height) continue;
    if (left < -1 || right > width + 1) wrong.push(`off the screen: ${named(it)}`);
    const isHidden = getComputedStyle(it).overflowX !== "visible";
    if (isHidden && it.scrollWidth > it.clientWidth + 1 && !hasTitle(it)) wrong.push(`cut: ${named(it)}`);
    for (const text of it.childNodes) {
      const isCut = text.nodeType === Node.TEXT_NODE && /…\S|\S…/.test(text.data);
      if (isCut && !hasTitle(it)) wrong.push(`cut without a title: ${text.data}`);
    }
  }
  return [...new Set(wrong)];
})();
