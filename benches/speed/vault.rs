//! Vaults that look like people's: notes of some paragraphs, daily notes, digests, links.
//!
//! Takes a number, gives the same notes each time. Words are drawn as in prose: few often, many
//! seldom.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A made vault.
pub struct Vault {
    pub root: PathBuf,
    pub notes: Vec<PathBuf>,
    /// The words of a query and the note they were taken from.
    pub queries: Vec<(String, PathBuf)>,
    pub bytes: u64,
}

const QUERIES: usize = 200;

const SMALL: &str = "the of and to a in is that it for on was with as be at by this we from or an \
    are not have but which when has they if more all were can will one would no their than so \
    about up out only into other then could now over also after must what there some its how";

const WORDS: &str = "account action address agent amount answer archive argument array attempt \
    backup balance barrier batch binary border branch bridge budget buffer bundle cache calendar \
    camera candle carbon castle century chain channel chapter character charge circle citizen \
    client climate clock cluster coffee column command commit company compile concert config \
    connection contract copper corner cotton council counter country courage cursor customer \
    database decision default deploy desert design device dialogue digest dinner display distance \
    doctor document domain dragon editor effect empire endpoint energy engine error evening event \
    exchange exercise factor failure family farmer feature fiction figure filter flavour folder \
    forest format fortune friend function future galaxy garden gateway glacier grammar ground \
    handler harbour history holiday horizon hospital husband identity image index insect island \
    iteration journey keyboard kitchen ladder landscape language latency lesson letter library \
    license limit liquid logger machine magnet manager margin market matrix meadow measure \
    medicine meeting memory merchant message method migration mirror module moment monitor \
    mountain museum network notebook number object ocean office operator orchard order origin \
    package painting paragraph parser partner passenger pattern payment people permission phone \
    picture pipeline planet player pocket pointer policy portrait position practice premise \
    pressure printer problem process product profile program project protocol quality quarter \
    query question queue railway reason recipe record recovery region register release report \
    request research reserve resource response result revenue review river rocket routine \
    runtime sample scanner schedule schema science script search season secret section segment \
    sensor sequence server service session shadow signal silver socket soldier solution source \
    station status storage storm stranger strategy stream string student studio subject summary \
    summer supply surface symbol system table target teacher temple tenant theatre theory thread \
    timeout token topic traffic transfer travel treasure trigger tunnel update user vacation \
    valley value variable vector vehicle version victory village violin virtue visitor volume \
    weather website weight window winter wisdom witness workflow workshop writer yesterday";

const HEADS: &str = "re un over inter micro out sub super under multi";
const TAILS: &str = "s ed ing er less like ship able wise ful";

/// Makes a vault of so many notes at `root`.
pub fn make(root: &Path, size: usize) -> io::Result<Vault> {
    let words = Words::new();
    let mut random = Random(7);
    let mut vault = Vault {
        root: root.to_owned(),
        notes: Vec::with_capacity(size),
        queries: Vec::new(),
        bytes: 0,
    };
    for at in 0..size {
        let name = name_of(at, &words);
        let (text, rare) = note(at, size, &words, &mut random);
        let path = root.join(&name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &text)?;
        vault.bytes += text.len() as u64;
        if at % (size / QUERIES).max(1) == 0 && vault.queries.len() < QUERIES {
            let count = 3 + random.below(4);
            let picked: BTreeSet<_> = (0..count).map(|_| random.below(rare.len())).collect();
            let query: Vec<_> = picked.iter().map(|it| rare[*it].as_str()).collect();
            vault.queries.push((query.join(" "), name.clone().into()));
        }
        vault.notes.push(name.into());
    }
    Ok(vault)
}

/// Copies a folder of plain files.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn name_of(at: usize, words: &Words) -> String {
    let mut random = Random(at as u64 * 1_000_003 + 11);
    let [a, b] = [words.any(&mut random), words.any(&mut random)];
    match at % 10 {
        0..6 => format!("notes/{:03}/{a}-{b}-{at}.md", at / 1000),
        6..9 => format!(
            "daily/{}-{:02}-{:02}/{a}-{at}.md",
            2016 + at / 3650,
            1 + at / 300 % 12,
            1 + at % 28
        ),
        _ => format!("digest/{}/{a}-{b}-{at}.md", ["personal", "procedure", "wiki"][at % 3]),
    }
}

/// A note's text, and the rarer words of its first paragraphs.
fn note(at: usize, size: usize, words: &Words, random: &mut Random) -> (String, Vec<String>) {
    let name = name_of(at, words);
    let stem = name.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
    let mut rare = Vec::new();
    let mut text = format!(
        "---\ntitle: {}\ntags: [{}, {}]\n---\n\n# {}\n\n",
        stem.replace('-', " "),
        words.any(random),
        words.any(random),
        stem.replace('-', " ")
    );
    for paragraph in 0..[2, 3, 3, 4, 5, 7][random.below(6)] {
        if paragraph > 0 && random.below(10) < 4 {
            text += &format!("## {} {}\n\n", words.any(random), words.any(random));
        }
        for _ in 0..2 + random.below(4) {
            let mut sentence = String::new();
            for place in 0..7 + random.below(12) {
                if place > 0 {
                    sentence.push(' ');
                }
                if random.below(100) < 45 {
                    sentence += words.small(random);
                } else {
                    let word = words.any(random);
                    if paragraph < 2 {
                        rare.push(word.clone());
                    }
                    sentence += &word;
                }
            }
            text += &capital(&sentence);
            text += ". ";
        }
        text += "\n\n";
    }
    for _ in 0..[0, 1, 1, 2, 3][random.below(5)] {
        let other = name_of(random.below(size), words);
        let stem = other.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
        text += &format!("See also [[{stem}]].\n\n");
    }
    (text + &format!("Key: kx{at:07}\n"), rare)
}

fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|it| it.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

struct Words {
    small: Vec<&'static str>,
    all: Vec<String>,
}

impl Words {
    fn new() -> Self {
        let roots: Vec<&str> = WORDS.split_whitespace().collect();
        let mut all: Vec<String> = roots.iter().map(|it| (*it).to_owned()).collect();
        for tail in TAILS.split_whitespace() {
            all.extend(roots.iter().map(|it| format!("{it}{tail}")));
        }
        for head in HEADS.split_whitespace() {
            all.extend(roots.iter().map(|it| format!("{head}{it}")));
        }
        let mut random = Random(3);
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at + 1));
        }
        Self { small: SMALL.split_whitespace().collect(), all }
    }

    fn small(&self, random: &mut Random) -> &'static str {
        self.small[random.skewed(self.small.len())]
    }

    fn any(&self, random: &mut Random) -> String {
        self.all[random.skewed(self.all.len())].clone()
    }
}

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Low numbers often, high ones seldom, about as in Zipf's law.
    fn skewed(&mut self, limit: usize) -> usize {
        let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((limit as f64 + 1.0).powf(share) - 1.0) as usize % limit.max(1)
    }
}
