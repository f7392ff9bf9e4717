// Boxes that follow things from one answer to the next: a region is the one of before if their boxes overlap enough.

export const SAME = 0.3; // the least IoU of two boxes of one thing
export const MOST_MISSED = 2; // answers in which a thing may be missing before its box goes
const FRESH = 0.6; // share of the new box; the rest is the old one, so that boxes do not tremble

export function iou([ax0, ay0, ax1, ay1], [bx0, by0, bx1, by1]) {
  const width = Math.min(ax1, bx1) - Math.max(ax0, bx0), height = Math.min(ay1, by1) - Math.max(ay0, by0);
  if (width <= 0 || height <= 0) return 0;
  const both = width * height;
  return both / ((ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - both);
}

/** The tracks after an answer; `tracks` are those before it, the best pairs first. A new thing gets a free number. */
export function follow(tracks, regions) {
  const pairs = tracks.flatMap((track) => regions.map((region) => ({ track, region, fit: iou(track.xyxy, region.xyxy) })));
  const matched = new Map(), taken = new Set();
  for (const { track, region } of pairs.filter(({ fit }) => fit >= SAME).sort((a, b) => b.fit - a.fit)) {
    if (matched.has(track) || taken.has(region)) continue;
    matched.set(track, region);
    taken.add(region);
  }
  const kept = tracks.map((track) => {
    const region = matched.get(track);
    if (!region) return { ...track, missed: track.missed + 1 };
    const xyxy = track.xyxy.map((side, n) => FRESH * region.xyxy[n] + (1 - FRESH) * side);
    return { ...region, xyxy, number: track.number, missed: 0 };
  }).filter(({ missed }) => missed <= MOST_MISSED);
  const numbers = new Set(kept.map(({ number }) => number));
  const fresh = regions.filter((region) => !taken.has(region)).map((region) => {
    let number = 0;
    while (numbers.has(number)) number += 1;
    numbers.add(number);
    return { ...region, number, missed: 0 };
  });
  return [...kept, ...fresh];
}
