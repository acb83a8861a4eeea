// Before anything is drawn, so that a chosen theme doesn't flash the other one first.
const chosen = localStorage.getItem("foreword-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
