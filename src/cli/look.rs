//! `remd nodes`, `remd similar`, `remd traverse`, `remd graph`, `remd tags`.
//!
//! Takes parsed arguments, asks the agent, or the last index where none runs; prints the same bytes
//! either way.

use std::path::Path;

use crate::cli::args::{GraphArgs, NodesArgs, SimilarArgs, TagsArgs, TraverseArgs};
use crate::cli::report::{CliError, Exit};
use crate::cli::search::{ask, checked, form_of};
use crate::config::Dirs;
use crate::daemon::offline;
use crate::search::graph::Walk;
use crate::search::tags::{TagOrder, TagsAsked};
use crate::search::{self, Look, Query};
use crate::serve::{Form, Request};

/// `remd nodes QUERY…`.
pub fn nodes(vault: &Path, dirs: &Dirs, args: &NodesArgs) -> Result<Exit, CliError> {
    let query =
        Query { limit: args.limit, min_score: args.min_score, ..Query::new(args.words.join(" ")) };
    checked(&query)?;
    look(vault, dirs, Look::Nodes(query), form_of(args.json, args.markdown))
}

/// `remd similar PATH`.
pub fn similar(vault: &Path, dirs: &Dirs, args: &SimilarArgs) -> Result<Exit, CliError> {
    let asked = Look::Similar { path: args.path.clone(), limit: args.limit };
    look(vault, dirs, asked, form_of(args.json, args.markdown))
}

/// `remd traverse PATH…`.
pub fn traverse(vault: &Path, dirs: &Dirs, args: &TraverseArgs) -> Result<Exit, CliError> {
    let direction = args.direction.parse().map_err(|err: search::graph::WalkError| {
        CliError::from_error(&err).hint(err.hint().unwrap_or_default())
    })?;
    let walk = Walk { seeds: args.paths.clone(), depth: args.depth, direction };
    look(vault, dirs, Look::Traverse(walk), form_of(args.json, false))
}

/// `remd graph`.
pub fn graph(vault: &Path, dirs: &Dirs, args: &GraphArgs) -> Result<Exit, CliError> {
    look(vault, dirs, Look::Graph, form_of(args.json, false))
}

/// `remd tags`.
pub fn tags(vault: &Path, dirs: &Dirs, args: &TagsArgs) -> Result<Exit, CliError> {
    let asked = TagsAsked {
        page: args.page,
        page_size: args.page_size,
        order_by: if args.by_count { TagOrder::Count } else { TagOrder::Tag },
        is_descending: args.descending,
    };
    look(vault, dirs, Look::Tags(asked), form_of(args.json, false))
}

fn look(vault: &Path, dirs: &Dirs, look: Look, form: Form) -> Result<Exit, CliError> {
    let request = Request::Look { look: look.clone(), form };
    ask(vault, dirs, &request, &|unseen, progress| {
        Ok(offline::look(vault, dirs, &look, form, unseen, progress))
    })
}
