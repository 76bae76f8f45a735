//! Figures, their goals, and the table that is printed at the end.

/// Two entries of the same program in one run differ by up to 13 % on a busy machine; a goal on a time counts as
/// missed beyond this factor.
const NOISE: f64 = 1.25;

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Nothing: it is printed to be read beside the others.
    None,
    /// At most this; measured in time, so with the noise margin.
    AtMost(f64),
    /// At most this; counted, so without a margin.
    Exactly(f64),
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    values: Vec<f64>,
    goal: Goal,
}

/// How a row stands against its goal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Free,
    Met,
    Noise,
    Missed,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// The middle of some values; 0 when there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

/// `a / b`, value by value.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

impl Table {
    /// Adds a figure with one value per round.
    pub fn add(&mut self, what: impl Into<String>, unit: &'static str, values: Vec<f64>, goal: Goal) {
        self.rows.push(Row { what: what.into(), unit, values, goal });
    }

    /// Adds a line below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Prints everything, the missed goals last, and says whether every goal is met within the noise.
    pub fn print(&self) -> bool {
        println!("\n| figure | median | range | goal | |\n|---|---|---|---|---|");
        for row in &self.rows {
            let (low, high) = row.range();
            let goal = match row.goal {
                Goal::None => String::new(),
                Goal::AtMost(goal) | Goal::Exactly(goal) => format!("≤ {}", number(goal)),
            };
            let verdict = match row.verdict() {
                Verdict::Free => "",
                Verdict::Met => "met",
                Verdict::Noise => "over, within the noise",
                Verdict::Missed => "**missed**",
            };
            let middle = number(median(&row.values));
            println!(
                "| {} | {middle} {} | {} – {} | {goal} | {verdict} |",
                row.what,
                row.unit,
                number(low),
                number(high)
            );
        }
        println!();
        for note in &self.notes {
            println!("{note}");
        }
        let missed: Vec<&Row> = self.rows.iter().filter(|row| row.verdict() == Verdict::Missed).collect();
        for row in &missed {
            println!("missed: {}", row.what);
        }
        missed.is_empty()
    }
}

impl Row {
    fn range(&self) -> (f64, f64) {
        let low = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }

    fn verdict(&self) -> Verdict {
        let middle = median(&self.values);
        match self.goal {
            Goal::None => Verdict::Free,
            Goal::AtMost(goal) | Goal::Exactly(goal) if middle <= goal => Verdict::Met,
            Goal::AtMost(goal) if middle <= goal * NOISE => Verdict::Noise,
            Goal::AtMost(_) | Goal::Exactly(_) => Verdict::Missed,
        }
    }
}

/// Three digits are more than the noise leaves.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
