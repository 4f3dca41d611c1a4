// A picture drawn by hand. Strokes are kept as lines, so that the picture is as the networks know
// it however large they are drawn: fitted into its middle, of the usual thickness, pixels averaged.
const FINE = 16; // small squares along a pixel's side

const line = (context, strokes, thickness, place) => {
  context.lineWidth = thickness;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) {
    context.beginPath();
    stroke.map(place).forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (stroke.length === 1) context.lineTo(...place(stroke[0]));
    context.stroke();
  }
};

const between = (values) => [Math.min(...values), Math.max(...values)];

// The share of ink in every pixel, row by row, shifted by so many pixels.
const inked = (strokes, { side, margin, width, line: share }, shift = [0, 0]) => {
  const points = strokes.flat();
  const [left, right] = between(points.map(([x]) => x)), [top, bottom] = between(points.map(([, y]) => y));
  const box = (side - 2 * margin) * FINE, thickness = share * box;
  const scale = (box - thickness) / Math.max(right - left, bottom - top, 0.05);
  const across = Math.min(scale, (width * box - thickness) / Math.max(right - left, 0.05));
  const sheet = new OffscreenCanvas(side * FINE, side * FINE);
  const context = sheet.getContext("2d", { willReadFrequently: true });
  const middle = (side * FINE) / 2;
  line(context, strokes, thickness, ([x, y]) => [
    middle + (x - (left + right) / 2) * across + shift[0] * FINE,
    middle + (y - (top + bottom) / 2) * scale + shift[1] * FINE,
  ]);
  const { data } = context.getImageData(0, 0, sheet.width, sheet.height);
  const pixels = new Array(side * side).fill(0);
  for (let y = 0; y < sheet.height; y++)
    for (let x = 0; x < sheet.width; x++)
      pixels[Math.floor(y / FINE) * side + Math.floor(x / FINE)] += data[4 * (y * sheet.width + x) + 3];
  return pixels.map((sum) => sum / (255 * FINE * FINE));
};

// With a margin the middle is that of the ink, as in MNIST; without one there is no room for that.
const picture = (strokes, form) => {
  const first = inked(strokes, form), { side } = form;
  if (!form.margin) return first;
  const all = first.reduce((sum, own) => sum + own, 0);
  const mean = (of) => first.reduce((sum, own, k) => sum + own * (of(k) + 0.5), 0) / all;
  const shift = [side / 2 - mean((k) => k % side), side / 2 - mean((k) => Math.floor(k / side))];
  return inked(strokes, form, shift.map(Math.round));
};

const preview = (pixels, side) => {
  const context = document.getElementById("seen").getContext("2d");
  const image = context.createImageData(side, side);
  pixels.forEach((ink, k) => { image.data[4 * k + 3] = Math.round(255 * ink); });
  context.putImageData(image, 0, 0);
};

export const drawn = (form, ask) => {
  const { side, ink } = form;
  const canvas = document.getElementById("drawing"), context = canvas.getContext("2d");
  const paint = () => {
    context.clearRect(0, 0, canvas.width, canvas.height);
    line(context, strokes, 0.08 * canvas.width, ([x, y]) => [x * canvas.width, y * canvas.height]);
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const changed = () => {
    paint();
    const pixels = picture(strokes, form);
    preview(pixels, side);
    ask(pixels.map((own) => own * ink));
  };
  let strokes = [], drawing = false;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drawing = true;
    strokes.push([at(event)]);
    changed();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    const moves = event.getCoalescedEvents?.() ?? [];
    strokes.at(-1).push(...(moves.length ? moves : [event]).map(at));
    changed();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drawing = false; });
  document.getElementById("asking").addEventListener("reset", () => {
    strokes = [];
    paint();
    preview(new Array(side * side).fill(0), side);
  });
};
