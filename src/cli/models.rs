//! `remd model list`.
//!
//! Prints the models at hand.

use serde_json::json;

use crate::cli::report::{self, CliError, Exit};
use crate::daemon::models;

/// Prints every model, and which one is in use.
pub fn list(json: bool) -> Result<Exit, CliError> {
    let model = models::on_board();
    let identity = model.identity();
    let (name, kind, dimension) = (&identity.model, &identity.backend, identity.dimension);
    if json {
        let model = json!({
            "name": name,
            "kind": kind,
            "dimension": dimension,
            "digest": identity.source,
            "where": "on board",
            "in_use": true,
        });
        let object = json!({"schema_version": 1, "models": [model]});
        report::data(format!("{object:#}\n"))?;
    } else {
        report::data(format!("{name}  {kind}, {dimension} parts, on board, in use\n"))?;
    }
    Ok(Exit::Done)
}
