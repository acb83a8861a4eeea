// Figures as people read them. What isn't known is said; it is never shown as 0.
export const UNKNOWN = "unknown";

const whole = new Intl.NumberFormat("en");
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const isKnown = (value) => value !== null && value !== undefined;
export const count = (value) => (isKnown(value) ? whole.format(Math.round(value)) : UNKNOWN);
export const number = (value) => (isKnown(value) ? few.format(value) : UNKNOWN);
export const plural = (value, one, many = `${one}s`) =>
  isKnown(value) ? `${count(value)} ${value === 1 ? one : many}` : UNKNOWN;

export function percent(rate) {
  if (!isKnown(rate)) return UNKNOWN;
  const share = rate * 100;
  return `${share > 0 && share < 10 ? share.toFixed(1) : share.toFixed(0)} %`;
}

export function seconds(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 1) return `${few.format(value * 1000)} ms`;
  return value < 120 ? `${few.format(value)} s` : `${few.format(value / 60)} min`;
}

export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${few.format(value)} ${units[unit]}`;
}

export const moment = (text) => (text ? new Date(text).toLocaleString() : UNKNOWN);
