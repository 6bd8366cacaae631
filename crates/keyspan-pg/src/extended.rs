//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.

use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{ColumnType, Error, ErrorKind, Result};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use crate::connection::Connection;
use crate::engine::{Outcome, Parsed, Prepared, Statement, Tag, TransactionStatus};
use crate::failure::{Failure, protocol};
use crate::portal::{Portal, PortalState, Scales, StoredStatement};
use crate::rows::{RowSource, ValueFormat, row_description, spread};
use crate::types::PgType;
use crate::types::pg_type::oid;

/// Portals that a session may have: each holds its statement's rows that were read ahead.
const PORTALS_MAX: usize = 256;

impl Connection {
    /// Parse: text to a prepared statement.
    pub(crate) async fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        let name = parse.name.unwrap_or_default();
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(ErrorKind::DuplicateStatement, message).into());
        }
        let mut parsed = self.session.parse(&parse.query)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::new(ErrorKind::Syntax, message).into());
        }
        let stored = match parsed.pop() {
            None => StoredStatement::default(),
            Some(parsed) => self.prepare(parsed, &parse.type_oids).await?,
        };
        if !name.is_empty() {
            let prepared = stored.statement.as_ref().map(|statement| &statement.1);
            self.session.share_statement(&name, &parse.query, &stored.parameters, prepared)?;
        }
        self.statements.insert(name, stored);
        Ok(self.out.message(&ParseComplete::new())?)
    }

    async fn prepare(&mut self, parsed: Parsed, declared: &[u32]) -> Result<StoredStatement, Failure> {
        let types = declared.iter().map(|oid| declared_type(*oid)).collect::<Result<Vec<_>>>()?;
        let (prepared, of_columns) = self.resolve_types(&parsed, &types).await?;
        let each = prepared.parameters.iter().enumerate();
        let parameters = each.map(|(index, ty)| match declared.get(index) {
            Some(oid) if !matches!(*oid, 0 | oid::UNKNOWN) => *oid,
            _ if prepared.oid_arrays.contains(&index) => PgType::array_of(PgType::of_oid(oid::OID)).oid,
            _ => PgType::of_column_type(*ty).oid,
        });
        let parameters = parameters.collect();
        let statement = Some(Arc::new((parsed, prepared)));
        Ok(StoredStatement::new(statement, parameters, types, of_columns))
    }

    /// Prepares a statement with the parameter types that the client declared. A declared `numeric` says no precision,
    /// so where it is assigned to a column, that one's own decimal type comes first: digits must not be rounded on their way.
    /// The places of the parameters that have the type of their column.
    async fn resolve_types(
        &mut self,
        parsed: &Parsed,
        types: &[Option<ColumnType>],
    ) -> Result<(Prepared, Vec<usize>), Failure> {
        self.control.begin_statement();
        let is_decimal = |ty: &ColumnType| matches!(ty, ColumnType::Decimal { .. } | ColumnType::VarInt);
        let writes = matches!(parsed.statement, Statement::Insert(_) | Statement::Update(_));
        if !writes || !types.iter().flatten().any(is_decimal) {
            return Ok((self.prepare_typed(parsed, types).await?, Vec::new()));
        }
        let open: Vec<_> = types.iter().map(|ty| ty.filter(|ty| !is_decimal(ty))).collect();
        let prepared = self.prepare_typed(parsed, &open).await?;
        let numerics = (0..types.len()).filter(|place| types[*place] != open[*place]);
        let (of_columns, others): (Vec<usize>, Vec<usize>) =
            numerics.partition(|place| prepared.assigned.contains(place) && is_decimal(&prepared.parameters[*place]));
        if others.is_empty() {
            return Ok((prepared, of_columns));
        }
        let typed = |(place, ty): (usize, &Option<ColumnType>)| ty.filter(|_| !of_columns.contains(&place));
        let typed: Vec<_> = types.iter().enumerate().map(typed).collect();
        Ok((self.prepare_typed(parsed, &typed).await?, of_columns))
    }

    async fn prepare_typed(&mut self, parsed: &Parsed, types: &[Option<ColumnType>]) -> Result<Prepared, Failure> {
        self.control.run(&mut self.reader, &mut self.out, self.session.prepare(parsed, types)).await
    }

    /// The statement for numerics with these digits after the point, prepared anew if it was not for such.
    async fn for_scales(&mut self, stored: StoredStatement, scales: Scales) -> Result<StoredStatement, Failure> {
        if let Some(known) = stored.prepared_for(&scales) {
            return Ok(known);
        }
        let Some(statement) = &stored.statement else { return Ok(stored) };
        let (parsed, types) = (statement.0.clone(), stored.types_for(&scales));
        self.control.begin_statement();
        let prepared = self.prepare_typed(&parsed, &types).await?;
        Ok(stored.keep(scales, parsed, prepared))
    }

    /// Bind: a prepared statement with parameters to a portal.
    pub(crate) async fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let name = bind.portal_name.unwrap_or_default();
        let statement = self.stored(bind.statement_name.as_deref())?;
        if !name.is_empty() && (self.portals.contains_key(&name) || self.session.cursor_schema(&name).is_some()) {
            return Err(portal_exists(&name).into());
        }
        let wanted = statement.parameters.len();
        let given = bind.parameters.len();
        let formats = spread(&bind.parameter_format_codes, given).ok_or_else(|| {
            let formats = bind.parameter_format_codes.len();
            protocol(format!("bind message has {formats} parameter formats but {given} parameters"))
        })??;
        if given != wanted {
            let statement = bind.statement_name.as_deref().unwrap_or_default();
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement \"{statement}\" requires {wanted}"
            );
            return Err(protocol(message).into());
        }
        let scales = statement.scales(&bind.parameters, &formats);
        let statement = self.for_scales(statement, scales).await?;
        let (zone, encoding) = (self.text_style().zone, self.out.encoding());
        let each = bind.parameters.iter().zip(formats).enumerate();
        let value = |(index, (bytes, format)): (usize, (&Option<Bytes>, ValueFormat))| {
            statement.value(index, bytes.as_deref(), format, &zone, encoding)
        };
        let values = each.map(value).collect::<Result<Vec<_>>>()?;
        let columns = statement.columns();
        let formats = spread(&bind.result_column_format_codes, columns).ok_or_else(|| {
            let formats = bind.result_column_format_codes.len();
            protocol(format!("bind message has {formats} result formats but query has {columns} columns"))
        })??;
        if let Some(statement) = statement.statement.clone() {
            let check = self.session.check_columns(&statement.1);
            self.control.run(&mut self.reader, &mut self.out, check).await?;
        }
        if self.portals.len() >= PORTALS_MAX {
            let message = format!("a session has at most {PORTALS_MAX} portals");
            return Err(Error::new(ErrorKind::LimitExceeded, message).with_hint("Close those that are read.").into());
        }
        self.portals.insert(name, Portal { statement, values, formats, state: PortalState::Ready });
        Ok(self.out.message(&BindComplete::new())?)
    }

    /// Describe: the parameters and columns of a statement, or the columns of a portal.
    pub(crate) fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref();
        match describe.target_type {
            b'S' => {
                let stored = self.stored(name)?;
                self.out.message(&ParameterDescription::new(stored.parameters.clone()))?;
                self.describe_columns(&stored, &[])
            }
            b'P' => {
                let Some(portal) = self.portals.get(name.unwrap_or_default()) else {
                    // A cursor of the language is a portal too: psycopg declares one and describes it.
                    let cursor = name.and_then(|name| self.session.cursor_schema(name));
                    let schema = cursor.ok_or_else(|| no_portal(name))?;
                    return Ok(self.out.message(&row_description(&schema, &[])?)?);
                };
                let (stored, formats) = (portal.statement.clone(), portal.formats.clone());
                self.describe_columns(&stored, &formats)
            }
            other => Err(protocol(format!("invalid DESCRIBE message subtype {other}")).into()),
        }
    }

    fn describe_columns(&mut self, stored: &StoredStatement, formats: &[ValueFormat]) -> Result<(), Failure> {
        let schema = stored.statement.as_ref().and_then(|statement| statement.1.schema.as_ref());
        match schema {
            Some(schema) => self.out.message(&row_description(schema, formats)?)?,
            None => self.out.message(&NoData::new())?,
        }
        Ok(())
    }

    /// Execute: runs a portal, or goes on with it. Zero and negative limits are none, as in Postgres.
    pub(crate) async fn execute(&mut self, execute: &Execute) -> Result<(), Failure> {
        let name = execute.name.clone().unwrap_or_default();
        let limit = u64::try_from(execute.max_rows).ok().filter(|limit| *limit > 0);
        let Some(mut portal) = self.portals.remove(&name) else {
            return self.advance_cursor(&name, limit).await;
        };
        let open_before = self.session.status() != TransactionStatus::Idle;
        let result = self.advance(&mut portal, limit).await;
        let ended = open_before && self.session.status() == TransactionStatus::Idle;
        if !ended {
            self.portals.insert(name, portal);
        }
        result
    }

    /// Execute of a cursor of the language, which is a portal too: its next rows, as text.
    async fn advance_cursor(&mut self, name: &str, limit: Option<u64>) -> Result<(), Failure> {
        if self.session.cursor_schema(name).is_none() {
            return Err(no_portal(Some(name)).into());
        }
        let count = limit.map_or("ALL".to_owned(), |limit| limit.to_string());
        let mut parsed = self.session.parse(&format!("FETCH {count} FROM \"{}\"", name.replace('"', "\"\"")))?;
        let Some(fetch) = parsed.pop() else { return Err(no_portal(Some(name)).into()) };
        let prepared = self.prepare_typed(&fetch, &[]).await?;
        let Outcome { rows, .. } = self.run(&prepared, &[]).await?;
        let Some(rows) = rows else { return Err(no_portal(Some(name)).into()) };
        let formats = vec![ValueFormat::Text; rows.schema().fields().len()];
        let mut source = RowSource::new(rows, formats, self.text_style())?;
        let sent = source.send(&mut self.out, &mut self.reader, &mut self.control, None).await?;
        drop(source);
        self.tell_changes()?;
        match limit {
            Some(limit) if sent.rows >= limit => Ok(self.out.message(&PortalSuspended::new())?),
            _ => self.complete(format!("SELECT {}", sent.rows)),
        }
    }

    async fn advance(&mut self, portal: &mut Portal, limit: Option<u64>) -> Result<(), Failure> {
        let Some(statement) = portal.statement.statement.clone() else {
            return Ok(self.out.message(&EmptyQueryResponse::new())?);
        };
        match std::mem::replace(&mut portal.state, PortalState::Done(None)) {
            PortalState::Open(source, tag) => self.send_rows(portal, source, tag, limit).await,
            PortalState::Done(Some(tag)) => {
                self.complete(tag.text(0))?;
                portal.state = PortalState::Done(Some(tag));
                Ok(())
            }
            PortalState::Done(None) => {
                Err(Error::new(ErrorKind::ObjectNotReady, "portal cannot be run: it has been run to its end").into())
            }
            PortalState::Ready => self.start(portal, &statement, limit).await,
        }
    }

    async fn start(
        &mut self,
        portal: &mut Portal,
        statement: &(Parsed, Prepared),
        limit: Option<u64>,
    ) -> Result<(), Failure> {
        if let Some(tag) = self.change_names(&statement.0)? {
            return self.complete(tag);
        }
        // A lone statement commits by itself. If others may follow before Sync, they are one transaction.
        let alone = self.reader.next_kind() == Some(b'S');
        if !alone && self.session.status() == TransactionStatus::Idle {
            self.session.begin_implicit();
            self.implicit = true;
        }
        let outcome = self.run(&statement.1, &portal.values).await?;
        if outcome.copy.is_some() {
            let tag = self.copy(outcome).await?;
            return self.complete(tag);
        }
        let Outcome { tag, rows, .. } = outcome;
        match rows {
            None => self.complete(tag.text(0)),
            Some(rows) => {
                let width = rows.schema().fields().len();
                if width != portal.formats.len() {
                    // Invariant: rows have the columns that were described; a table changed in between.
                    return Err(Error::cached_plan().into());
                }
                let source = RowSource::new(rows, portal.formats.clone(), self.text_style())?;
                self.send_rows(portal, Box::new(source), tag, limit).await
            }
        }
    }

    async fn send_rows(
        &mut self,
        portal: &mut Portal,
        mut source: Box<RowSource>,
        tag: Tag,
        limit: Option<u64>,
    ) -> Result<(), Failure> {
        self.control.begin_statement();
        let sent = source.send(&mut self.out, &mut self.reader, &mut self.control, limit).await?;
        if !sent.finished {
            portal.state = PortalState::Open(source, tag);
            return Ok(self.out.message(&PortalSuspended::new())?);
        }
        drop(source);
        self.tell_changes()?;
        self.complete(tag.text(sent.rows))?;
        portal.state = PortalState::Done(Some(tag));
        Ok(())
    }

    fn complete(&mut self, tag: String) -> Result<(), Failure> {
        Ok(self.out.message(&CommandComplete::new(tag))?)
    }

    /// Close: forgets a statement or portal; one that does not exist is no error.
    pub(crate) fn close(&mut self, close: &Close) -> Result<(), Failure> {
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            b'S' => {
                self.statements.remove(name);
                self.session.forget_statement(Some(name));
            }
            b'P' => {
                if self.portals.remove(name).is_none() {
                    self.session.close_cursor(name);
                }
            }
            other => return Err(protocol(format!("invalid CLOSE message subtype {other}")).into()),
        }
        Ok(self.out.message(&CloseComplete::new())?)
    }

    /// The statement of this name, be it of the protocol or of PREPARE: they share one space of names.
    fn stored(&self, name: Option<&str>) -> Result<StoredStatement> {
        if let Some(stored) = self.statements.get(name.unwrap_or_default()) {
            return Ok(stored.clone());
        }
        let named = name.and_then(|name| self.session.named_statement(name));
        if let Some(prepared) = named {
            let parameters = prepared.parameters.iter().map(|ty| PgType::of_column_type(*ty).oid).collect();
            let types = prepared.parameters.iter().copied().map(Some).collect();
            let statement = Some(Arc::new((prepared.parsed().clone(), prepared.clone())));
            return Ok(StoredStatement::new(statement, parameters, types, Vec::new()));
        }
        let message = match name {
            Some(name) => format!("prepared statement \"{name}\" does not exist"),
            None => "unnamed prepared statement does not exist".to_owned(),
        };
        Err(Error::new(ErrorKind::UndefinedStatement, message))
    }
}

/// The type that a client declared for a parameter; none if it left the type open.
fn declared_type(oid: u32) -> Result<Option<ColumnType>> {
    if matches!(oid, 0 | oid::UNKNOWN) {
        return Ok(None);
    }
    PgType::of_oid(oid).column_type().map(Some).ok_or_else(|| unsupported(oid))
}

fn unsupported(oid: u32) -> Error {
    Error::not_supported(format!("a parameter of the type with OID {oid} is not supported"))
        .with_hint("Pass a text and cast it.")
}

/// 42P03: there is a portal or a cursor of this name.
pub(crate) fn portal_exists(name: &str) -> Error {
    Error::new(ErrorKind::DuplicateCursor, format!("cursor \"{name}\" already exists"))
}

fn no_portal(name: Option<&str>) -> Error {
    let name = name.unwrap_or_default();
    Error::new(ErrorKind::UndefinedCursor, format!("portal \"{name}\" does not exist"))
}
