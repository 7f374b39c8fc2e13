// Before the first paint: the theme that was chosen last; the system's when none was.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* no storage: the system's theme */ }
