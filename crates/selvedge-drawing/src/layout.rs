//! A layered layout: layers from left to right, few crossings, lines that pass between the boxes.
//!
//! 1. A line that spans several layers gets a bend in each layer between, which takes up space there like a box.
//! 2. Each layer is ordered by the average position of the neighbours, in a few sweeps over all layers.
//! 3. Each item moves vertically towards its neighbours, as far as order and spacing allow.
//!
//! Nodes without lines are placed in rows below the rest: in one column they would make the picture tall and empty.

/// A width and a height, in pixels.
#[derive(Clone, Copy)]
pub struct Size {
    pub width: i32,
    pub height: i32,
}

/// A point of the picture, in pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The distance to the right.
    pub x: i32,
    /// The distance down.
    pub y: i32,
}

/// The positions of all boxes and lines.
pub struct Layout {
    /// The upper left corner of each box.
    pub boxes: Vec<Point>,
    /// The points of each line, in pairs. A curve joins the two points of a pair; a straight line joins one pair to the
    /// next.
    pub lines: Vec<Vec<Point>>,
    pub size: Size,
}

/// The vertical space between two boxes of a layer, enough for the policy label above a box.
const BETWEEN_BOXES: i32 = 22;
/// The vertical space around a line that passes a layer.
const AROUND_LINES: i32 = 12;
/// The smallest and the largest space between two layers; steep lines widen it.
const BETWEEN_LAYERS: (i32, i32) = (64, 200);
/// The most bends that are laid out. Beyond it, the longest lines are drawn straight, behind the boxes.
const BENDS_LIMIT: usize = 40_000;
/// The number of sweeps for the order, and for the vertical positions.
const SWEEPS: usize = 3;

/// A box or a bend.
struct Item {
    layer: usize,
    bend: bool,
    /// The neighbours in the layer before.
    before: Vec<usize>,
    /// The neighbours in the layer after.
    after: Vec<usize>,
    /// The vertical position of the item's middle.
    middle: f64,
}

/// Lays out a graph, given the layer of each node and the indices of the two nodes of each line.
pub fn lay_out(layers: &[u32], links: &[(usize, usize)], size: Size) -> Layout {
    let mut sketch = Sketch::new(layers, links, size);
    sketch.order_layers();
    sketch.place_vertically();
    sketch.finish(links)
}

/// A layout in the making.
struct Sketch {
    /// The size of a box.
    size: Size,
    /// The nodes, in their given order, then the bends.
    items: Vec<Item>,
    /// The bends of each link.
    bends: Vec<Vec<usize>>,
    /// The items of each layer from top to bottom.
    rows: Vec<Vec<usize>>,
    /// The nodes without lines.
    alone: Vec<usize>,
}

impl Sketch {
    fn new(layers: &[u32], links: &[(usize, usize)], size: Size) -> Self {
        let item =
            |layer: usize, bend: bool| Item { layer, bend, before: vec![], after: vec![], middle: 0.0 };
        let mut items: Vec<Item> = layers.iter().map(|layer| item(*layer as usize, false)).collect();
        let mut touched = vec![false; items.len()];
        let mut by_length: Vec<usize> = (0..links.len()).collect();
        by_length.sort_by_key(|link| layers[links[*link].1].saturating_sub(layers[links[*link].0]));
        let mut bends = vec![Vec::new(); links.len()];
        for link in by_length {
            let (from, to) = links[link];
            (touched[from], touched[to]) = (true, true);
            let between = items[from].layer + 1..items[to].layer;
            if items[from].layer >= items[to].layer
                || items.len() - layers.len() + between.len() > BENDS_LIMIT
            {
                continue;
            }
            bends[link] = (items.len()..items.len() + between.len()).collect();
            items.extend(between.map(|layer| item(layer, true)));
            let mut last = from;
            for next in bends[link].iter().copied().chain([to]) {
                items[last].after.push(next);
                items[next].before.push(last);
                last = next;
            }
        }
        let mut rows = vec![Vec::new(); layers.iter().max().map_or(0, |deepest| *deepest as usize + 1)];
        for (index, item) in items.iter().enumerate() {
            if item.bend || touched[index] {
                rows[item.layer].push(index);
            }
        }
        let alone = (0..layers.len()).filter(|index| !touched[*index]).collect();
        Sketch { size, items, bends, rows, alone }
    }

    /// Orders every layer by the average position of the neighbours in the layer before, then after, alternately.
    fn order_layers(&mut self) {
        let mut positions = vec![0.0; self.items.len()];
        for sweep in 0..SWEEPS * 2 + 1 {
            let forward = sweep % 2 == 0;
            for step in 0..self.rows.len() {
                let layer = if forward { step } else { self.rows.len() - 1 - step };
                let row = &mut self.rows[layer];
                let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(row.len());
                for (position, index) in row.iter().enumerate() {
                    let item = &self.items[*index];
                    let neighbours = if forward { &item.before } else { &item.after };
                    keyed.push((average(neighbours, &positions).unwrap_or(position as f64), *index));
                }
                keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
                for (position, (_, index)) in keyed.iter().enumerate() {
                    row[position] = *index;
                    positions[*index] = position as f64;
                }
            }
        }
    }

    /// Gives every item its vertical position.
    fn place_vertically(&mut self) {
        for layer in 0..self.rows.len() {
            self.place_layer(layer, |_, _| None);
        }
        let average = |items: &[Item], neighbours: &[usize]| {
            let sum: f64 = neighbours.iter().map(|index| items[*index].middle).sum();
            (!neighbours.is_empty()).then(|| sum / neighbours.len() as f64)
        };
        for _ in 0..SWEEPS {
            for layer in 0..self.rows.len() {
                self.place_layer(layer, |items, item| average(items, &item.before));
            }
            for layer in (0..self.rows.len()).rev() {
                self.place_layer(layer, |items, item| average(items, &item.after));
            }
        }
        // Long lines stay horizontal; a box is placed between its neighbours on both sides.
        for layer in 0..self.rows.len() {
            self.place_layer(layer, |items, item| {
                let (before, after) = (average(items, &item.before), average(items, &item.after));
                match (before, after) {
                    (Some(before), Some(_)) if item.bend => Some(before),
                    (Some(before), Some(after)) => Some((before + after) / 2.0),
                    (before, after) => before.or(after),
                }
            });
        }
    }

    /// Moves the items of a layer as near as possible to their wanted positions, by least squares, keeping their order
    /// and spacing: neighbours that would overlap move as one run.
    fn place_layer(&mut self, layer: usize, wanted: impl Fn(&[Item], &Item) -> Option<f64>) {
        struct Run {
            sum: f64,
            weight: f64,
            count: usize,
        }
        let row = &self.rows[layer];
        let mut offsets = Vec::with_capacity(row.len());
        let mut runs: Vec<Run> = Vec::new();
        let mut offset = 0.0;
        for (position, index) in row.iter().enumerate() {
            let item = &self.items[*index];
            if position > 0 {
                offset += self.distance(&self.items[row[position - 1]], item);
            }
            offsets.push(offset);
            let weight = if item.bend { 4.0 } else { 1.0 };
            let target = wanted(&self.items, item).unwrap_or(item.middle) - offset;
            let mut run = Run { sum: target * weight, weight, count: 1 };
            while let Some(above) = runs.pop_if(|above| above.sum / above.weight >= run.sum / run.weight) {
                run.sum += above.sum;
                run.weight += above.weight;
                run.count += above.count;
            }
            runs.push(run);
        }
        let starts = runs.iter().flat_map(|run| std::iter::repeat_n(run.sum / run.weight, run.count));
        for ((index, offset), start) in row.iter().zip(offsets).zip(starts) {
            self.items[*index].middle = start + offset;
        }
    }

    /// Returns the least distance between the middles of two items.
    fn distance(&self, above: &Item, below: &Item) -> f64 {
        let half = f64::from(self.size.height) / 2.0;
        let (boxes, lines) = (f64::from(BETWEEN_BOXES), f64::from(AROUND_LINES));
        match (above.bend, below.bend) {
            (false, false) => 2.0 * half + boxes,
            (true, true) => lines,
            (false, true) | (true, false) => half + lines,
        }
    }

    /// Turns layers and vertical positions into points.
    fn finish(mut self, links: &[(usize, usize)]) -> Layout {
        let half = self.size.height / 2;
        let drawn = self.rows.iter().flatten().map(|index| {
            let item = &self.items[*index];
            item.middle - if item.bend { 0.0 } else { f64::from(half) }
        });
        let top = drawn.fold(f64::INFINITY, f64::min);
        for index in self.rows.iter().flatten() {
            self.items[*index].middle = (self.items[*index].middle - top).round();
        }
        let columns = self.columns(links);
        let corner = |item: &Item| Point { x: columns[item.layer], y: item.middle as i32 - half };
        let mut boxes: Vec<Point> = self.items.iter().filter(|item| !item.bend).map(corner).collect();
        let arrivals = self.arrivals(links);
        let lines = links.iter().zip(&self.bends).zip(arrivals).map(|(((from, to), bends), arrival)| {
            let (from, to) = (&self.items[*from], &self.items[*to]);
            let mut line = vec![Point { x: columns[from.layer] + self.size.width, y: from.middle as i32 }];
            for bend in bends.iter().map(|index| &self.items[*index]) {
                let (x, y) = (columns[bend.layer], bend.middle as i32);
                line.extend([Point { x, y }, Point { x: x + self.size.width, y }]);
            }
            line.push(Point { x: columns[to.layer], y: to.middle as i32 + arrival });
            line
        });
        let lines = lines.collect();
        let mut size = Size { width: 0, height: 0 };
        for item in self.rows.iter().flatten().map(|index| &self.items[*index]) {
            size.width = size.width.max(columns[item.layer] + self.size.width);
            size.height = size.height.max(item.middle as i32 + if item.bend { 0 } else { half });
        }
        self.place_alone(&mut boxes, &mut size);
        Layout { boxes, lines, size }
    }

    /// Returns the left side of each layer. The steeper the lines between two layers, the more space is between them.
    fn columns(&self, links: &[(usize, usize)]) -> Vec<i32> {
        let mut steepest = vec![0.0_f64; self.rows.len()];
        for ((from, to), bends) in links.iter().zip(&self.bends) {
            let mut last = *from;
            for next in bends.iter().copied().chain([*to]) {
                let (last_item, item) = (&self.items[last], &self.items[next]);
                let rise = (item.middle - last_item.middle).abs();
                steepest[last_item.layer] = steepest[last_item.layer].max(rise);
                last = next;
            }
        }
        let mut x = 0;
        let mut columns = Vec::with_capacity(self.rows.len());
        let (least, most) = BETWEEN_LAYERS;
        for rise in steepest {
            columns.push(x);
            x += self.size.width + (least + (rise * 0.14) as i32).min(most);
        }
        columns
    }

    /// Returns the vertical distance from the middle of its box at which each line arrives: side by side, in the order
    /// of the lines' origins.
    fn arrivals(&self, links: &[(usize, usize)]) -> Vec<i32> {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.items.len()];
        links.iter().enumerate().for_each(|(link, (_, to))| into[*to].push(link));
        let mut arrivals = vec![0; links.len()];
        for mut arriving in into {
            let height =
                |link: &usize| self.items[*self.bends[*link].last().unwrap_or(&links[*link].0)].middle;
            arriving.sort_by(|one, other| height(one).total_cmp(&height(other)));
            let gaps = arriving.len().saturating_sub(1).max(1) as i32;
            let span = (gaps * 9).min(self.size.height - 20);
            for (index, link) in arriving.iter().enumerate().filter(|_| arriving.len() > 1) {
                arrivals[*link] = index as i32 * span / gaps - span / 2;
            }
        }
        arrivals
    }

    /// Places the nodes without lines in rows below the rest.
    fn place_alone(&self, boxes: &mut [Point], size: &mut Size) {
        if self.alone.is_empty() {
            return;
        }
        let (wide, high) = (self.size.width + BETWEEN_BOXES, self.size.height + BETWEEN_BOXES);
        let square =
            (self.alone.len() as f64 * f64::from(high) / f64::from(wide) * 1.6).sqrt().round() as i32;
        let across = square.max((size.width + BETWEEN_BOXES) / wide).clamp(1, self.alone.len() as i32);
        let top = if size.height == 0 { 0 } else { size.height + 2 * BETWEEN_BOXES };
        for (position, index) in self.alone.iter().enumerate() {
            let position = position as i32;
            boxes[*index] = Point { x: position % across * wide, y: top + position / across * high };
        }
        let down = (self.alone.len() as i32 + across - 1) / across;
        size.width = size.width.max(across * wide - BETWEEN_BOXES);
        size.height = top + down * high - BETWEEN_BOXES;
    }
}

fn average(neighbours: &[usize], positions: &[f64]) -> Option<f64> {
    let sum: f64 = neighbours.iter().map(|index| positions[*index]).sum();
    (!neighbours.is_empty()).then(|| sum / neighbours.len() as f64)
}
