//! The audit log: who changed definitions, roles and rights. Lines of the log with the target `keyspan::audit`.
//!
//! Texts are not logged: they may hold passwords and values.

use keyspan_cql::{GrantObjects, RoleName, Statement};

use crate::context::ClientContext;
use crate::outcome::Outcome;

/// Logs a statement that has changed definitions, roles or rights.
pub(crate) fn record(context: &ClientContext, statement: &Statement, outcome: &Outcome) {
    let Some(object) = object(statement) else { return };
    let (user, role) = (context.user(), context.current_user());
    tracing::info!(target: "keyspan::audit", user, role, object, "{}", outcome.tag.command());
}

/// What it changed; none for a statement that is not recorded.
fn object(statement: &Statement) -> Option<String> {
    let names = |names: &[String]| names.join(", ");
    let role = |name: &RoleName| match name {
        RoleName::Named(name) => name.clone(),
        RoleName::Public => "PUBLIC".to_owned(),
        RoleName::Current => "CURRENT_USER".to_owned(),
        RoleName::Session => "SESSION_USER".to_owned(),
    };
    Some(match statement {
        Statement::CreateKeyspace(statement) => statement.name.clone(),
        Statement::Attach(statement) => format!("{} from {}", statement.name, statement.directory),
        Statement::Detach(statement) => statement.name.clone(),
        Statement::AlterKeyspace(statement) => statement.name.clone(),
        Statement::CreateTable(statement) => statement.name.to_string(),
        Statement::CreateTableAs(statement) => statement.name.to_string(),
        Statement::CreateView(statement) => statement.name.to_string(),
        Statement::AlterTable(statement) => statement.name.to_string(),
        Statement::Drop(statement) => statement.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Statement::Truncate(statement) => {
            statement.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        Statement::CreateType(statement) => statement.name.to_string(),
        Statement::AlterType(statement) => statement.name.to_string(),
        Statement::RenameIndex(statement) => statement.name.to_string(),
        Statement::CreateSequence(statement) => statement.name.to_string(),
        Statement::AlterSequence(statement) => statement.name.to_string(),
        Statement::CreateRole(statement) => statement.name.clone(),
        Statement::AlterRole(statement) => role(&statement.role),
        Statement::DropRole(statement) => names(&statement.names),
        Statement::GrantRoles(statement) => {
            let members: Vec<String> = statement.members.iter().map(role).collect();
            format!("{} to {}", names(&statement.roles), members.join(", "))
        }
        Statement::GrantRights(statement) => {
            let grantees: Vec<String> = statement.grantees.iter().map(role).collect();
            format!("{} to {}", granted(&statement.objects), grantees.join(", "))
        }
        _ => return None,
    })
}

fn granted(objects: &GrantObjects) -> String {
    match objects {
        GrantObjects::Relations(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        GrantObjects::AllRelationsIn(names) => format!("all tables in {}", names.join(", ")),
        GrantObjects::Schemas(names) => format!("schema {}", names.join(", ")),
        GrantObjects::Keyspaces(names) => format!("keyspace {}", names.join(", ")),
    }
}
