//! Conway's Game of Life on a torus, rows over 4 devices: a glider crosses from device to device.

use meshwork::prelude::*;

const SIDE: i64 = 16;

/// The number of living neighbors decides.
fn generation(cells: Tensor) -> Tensor {
    let rows = &cells + cells.roll(1, 0) + cells.roll(-1, 0);
    let around = &rows + rows.roll(1, 1) + rows.roll(-1, 1) - &cells;
    (around.eq(3) | (cells.eq(1) & around.eq(2))).to(I32)
}

fn show(cells: &Array) -> Result<(), Error> {
    for row in cells.to_vec::<i32>()?.chunks(SIDE as usize) {
        println!("{}", row.iter().map(|&c| if c == 1 { "██" } else { " ·" }).collect::<String>());
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("rows", 4)?;
    let glider = [[0, 1], [1, 2], [2, 0], [2, 1], [2, 2]];
    let start = Array::from_fn([SIDE, SIDE], |i| i32::from(glider.contains(&[i[0], i[1]])));

    let generations = |cells: Tensor| for_loop(0..20, cells, |_, cells| generation(cells));
    let life = jit(generations).on(&mesh).in_shardings([P!["rows"]]);
    println!("{}", life.explain(&start)?);
    let end = life.call(&start)?;
    show(&end)?;

    // A glider moves one cell down and right in four generations.
    let moved = Array::from_fn([SIDE, SIDE], |i| i32::from(glider.contains(&[i[0] - 5, i[1] - 5])));
    assert_eq!(end.to_vec::<i32>()?, moved.to_vec::<i32>()?);
    assert_eq!(end.to_vec::<i32>()?, jit(generations).call(&start)?.to_vec::<i32>()?);
    Ok(())
}
