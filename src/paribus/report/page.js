"use strict";
// Every plot is drawn by the interpreter of expressions, since the page's policy forbids evaluation.
const specs = JSON.parse(document.getElementById("specs").textContent);
const options = {
  mode: "vega-lite",
  ast: true,
  renderer: "svg",
  actions: false,
  defaultStyle: false,
  tooltip: { theme: "paribus", disableDefaultStyle: true },
};
function draw(key, place) {
  vegaEmbed(place, specs[key], options).then(
    () => place.setAttribute("data-drawn", "yes"),
    (fault) => { place.textContent = `This plot could not be drawn: ${fault}`; },
  );
}
// Maps have thousands of squares each, so they are drawn when they come near.
const later = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (isIntersecting) {
      later.unobserve(target);
      draw(target.id.slice("plot-".length), target);
    }
  }
}, { rootMargin: "800px" });
for (const key of Object.keys(specs)) {
  const place = document.getElementById(`plot-${key}`);
  if (place && place.closest(".maps")) later.observe(place);
  else if (place) draw(key, place);
}
// What is folded away is printed too, but for bulk.
const folded = [];
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open], .bulk)")) {
    one.open = true;
    folded.push(one);
  }
});
addEventListener("afterprint", () => {
  for (const one of folded.splice(0)) one.open = false;
});
