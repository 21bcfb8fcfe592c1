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
for (const [key, spec] of Object.entries(specs)) {
  const place = document.getElementById(`plot-${key}`);
  if (place) {
    vegaEmbed(place, spec, options).then(
      () => place.setAttribute("data-drawn", "yes"),
      (fault) => { place.textContent = `This plot could not be drawn: ${fault}`; },
    );
  }
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
