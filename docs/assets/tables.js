// A table that is wider than its place scrolls with the arrow keys, too: the theme puts it in a box without a focus.
(() => {
  const update = () => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap"))
      box.scrollWidth > box.clientWidth ? (box.tabIndex = 0) : box.removeAttribute("tabindex");
  };
  let waiting = 0;
  const soon = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(update);
  };
  new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", soon);
  soon();
})();
