// Buttons that choose the statistic of one figure, and at the top of the page of all. Without this script the first is seen.
(() => {
  const figures = [...document.querySelectorAll("figure[data-choices]")];
  const names = figure => figure.dataset.choices.split("|");
  const choose = (figure, name) => {
    const nth = names(figure).indexOf(name);
    if (nth < 0) return;
    for (const layer of figure.querySelectorAll(".layer"))
      layer.style.display = layer.classList.contains("y" + nth) ? "inline" : "none";
    press(figure.querySelector(".choice"), name);
  };
  const press = (bar, name) => {
    for (const button of bar.children) button.setAttribute("aria-pressed", button.textContent === name);
  };
  const bar = (choices, chosen) => {
    const out = document.createElement("span");
    out.className = "choice";
    for (const name of choices) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.onclick = () => chosen(name, out);
      out.append(button);
    }
    press(out, choices[0]);
    return out;
  };
  for (const figure of figures)
    figure.querySelector("figcaption").append(bar(names(figure), name => choose(figure, name)));
  if (figures.length > 1) {
    const all = [...new Set(figures.flatMap(names))];
    const line = document.createElement("p");
    line.append("All time plots:", bar(all, (name, own) => {
      figures.forEach(figure => choose(figure, name));
      press(own, name);
    }));
    (document.querySelector("nav") || document.querySelector("h1")).after(line);
  }
})();
