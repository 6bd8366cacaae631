//! DataFusion's rules for logical plans, and how often a plan goes through them.
//!
//! All rules, up to three times, until nothing changes: that is what a join or a subquery may need, and most of what it takes
//! to plan a short statement over one table, of which most rules find nothing. Such a plan goes once through the rules that
//! can find something, in an order in which none needs what a later one does: filters reach the scan before limits, what
//! has reached it is simplified once more, and so are limits that a sort has taken or a projection stood before.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use chrono::{DateTime, Utc};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, EmptyRelation, Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use keyspan_model::Error;
use keyspan_seam::Snapshot;

use crate::asof::PushThrough;
use crate::family::{marked, named_only};
use crate::not_in::NotInAsExists;
use crate::shared::{equal_parts_once, numbered, with_filtered_parts_once};
use crate::{eager_aggregate, prefix};

/// Rules that find something in a plan over one table, in their order.
const OF_ONE_TABLE: [&str; 15] = [
    "simplify_expressions",
    "replace_distinct_aggregate",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_limit",
    "propagate_empty_relation",
    "eliminate_group_by_constant",
    "push_down_filter",
    "push_down_limit",
    "common_sub_expression_eliminate",
    "optimize_projections",
    "simplify_expressions",
    "eliminate_filter",
    "propagate_empty_relation",
    "push_down_limit",
];

/// Rules for fields of structs, which Keyspan's tables have none of; over `SELECT unnest(…) AS s` in LATERAL they make two
/// columns of one name.
const LEFT_OUT: [&str; 2] = ["extract_leaf_expressions", "push_down_leaf_projections"];

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

static SHORT: LazyLock<Result<Optimizer, Error>> = LazyLock::new(|| {
    let all = guarded_rules()?;
    let rule = |name: &&str| place_of(name, all.iter().map(|rule| rule.name())).map(|place| all[place].clone());
    Ok(Optimizer::with_rules(OF_ONE_TABLE.iter().map(rule).collect::<Result<_, Error>>()?))
});

/// All rules.
///
/// # Errors
/// XX000 if DataFusion has no rule of a name that is looked up here: another version may call it otherwise.
pub fn rules() -> Result<Vec<Rule>, Error> {
    SHORT.as_ref().map_err(Error::clone)?;
    let mut rules = guarded_rules()?;
    let place = |rules: &[Rule], name: &str| place_of(name, rules.iter().map(|rule| rule.name()));
    for name in LEFT_OUT {
        rules.remove(place(&rules, name)?);
    }
    rules.insert(place(&rules, "decorrelate_predicate_subquery")?, Arc::new(NotInAsExists));
    // Filters that have passed a join go on in the same pass; later, a projection would stand between.
    rules.insert(place(&rules, "push_down_filter")?, Arc::new(PushThrough));
    Ok(rules)
}

/// The place of DataFusion's rule of this name.
///
/// # Errors
/// XX000 if there is none.
pub fn place_of<'a>(name: &str, mut rules: impl Iterator<Item = &'a str>) -> Result<usize, Error> {
    rules.position(|rule| rule == name).ok_or_else(|| Error::internal(format!("DataFusion has no rule \"{name}\"")))
}

/// Rules of DataFusion's that would change the answer of some plans, and which plans these are.
const GUARDED: [(&str, Spares); 3] = [
    ("eliminate_cross_join", matches_nulls_anywhere),
    ("extract_equijoin_predicate", |plan| Ok(matches_nulls(plan))),
    ("push_down_filter", holds_constants),
];

/// Rules of DataFusion's that rely on what a key determines: they get plans [`with_right_keys`].
const OF_KEYS: [&str; 4] =
    ["eliminate_duplicated_expr", "eliminate_join", "optimize_projections", "replace_distinct_aggregate"];

/// DataFusion's rules, those of [`GUARDED`] with their guards.
fn guarded_rules() -> Result<Vec<Rule>, Error> {
    let mut rules = Optimizer::new().rules;
    for (name, spares) in GUARDED {
        let place = place_of(name, rules.iter().map(|rule| rule.name()))?;
        rules[place] = Arc::new(Guarded { rule: rules[place].clone(), spares });
    }
    for name in OF_KEYS {
        let place = place_of(name, rules.iter().map(|rule| rule.name()))?;
        rules[place] = Arc::new(WithRightKeys(rules[place].clone()));
    }
    Ok(rules)
}

/// The rule for joins in a row makes all of them match NULLs if the last one does (IS NOT DISTINCT FROM).
fn matches_nulls_anywhere(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches_nulls(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The rule that makes keys of a join's equalities gives them the join's way with NULLs: there they stay a filter.
fn matches_nulls(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}

/// The rule that moves filters down also moves a condition without columns, such as NULL or a comparison of a subquery,
/// below an aggregate that has a row even of no rows, and into nodes of ours: rows that are computed once are those of
/// other places, too. Of filters one above the other it makes one, and goes on with that. Of conditions that contradict each
/// other it makes such a condition itself, so none of an aggregate without groups is given to it: it moves no other there.
fn holds_constants(plan: &LogicalPlan) -> Result<bool> {
    let (mut below, mut constant) = (plan, false);
    while let LogicalPlan::Filter(filter) = below {
        constant |= split_conjunction(&filter.predicate).iter().any(|part| part.column_refs().is_empty());
        below = &filter.input;
    }
    let is_filter = matches!(plan, LogicalPlan::Filter(_));
    Ok(match below {
        LogicalPlan::Aggregate(aggregate) => {
            let without = aggregate.group_expr.is_empty() || matches!(aggregate.group_expr[0], Expr::GroupingSet(_));
            is_filter && without
        }
        LogicalPlan::Extension(_) => constant,
        _ => false,
    })
}

/// Whether a rule leaves a plan as it is.
type Spares = fn(&LogicalPlan) -> Result<bool>;

/// A rule of DataFusion's but for some plans.
#[derive(Debug)]
struct Guarded {
    rule: Rule,
    spares: Spares,
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if (self.spares)(&plan)? { Ok(Transformed::no(plan)) } else { self.rule.rewrite(plan, config) }
    }
}

/// A rule of DataFusion's that gets plans with the right keys.
#[derive(Debug)]
struct WithRightKeys(Rule);

impl OptimizerRule for WithRightKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // A rule that is asked about each node relies on the keys of what is below these only.
        let relies = self.apply_order().is_none() || matches!(plan, LogicalPlan::Distinct(_) | LogicalPlan::Sort(_));
        self.0.rewrite(if relies { with_right_keys(plan)? } else { plan }, config)
    }
}

/// The plan whose aggregates have no key but all that they group by, where DataFusion has another one: it takes the key of
/// one side of a join for a key of what is grouped by it and by columns of the other side.
fn with_right_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut wrong = false;
    plan.apply_with_subqueries(|node| {
        wrong |= matches!(node, LogicalPlan::Aggregate(aggregate) if has_wrong_key(aggregate));
        Ok(if wrong { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !wrong {
        return Ok(plan);
    }
    let keyed = plan.transform_up_with_subqueries(|node| match node.recompute_schema()? {
        LogicalPlan::Aggregate(mut aggregate) if has_wrong_key(&aggregate) => {
            let groups = 0..aggregate.group_expr.len();
            let nullable = groups.clone().any(|place| aggregate.schema.field(place).is_nullable());
            let all = (0..aggregate.schema.fields().len()).collect();
            let key = FunctionalDependence::new(groups.collect(), all, nullable).with_mode(Dependency::Single);
            let schema = DFSchema::clone(&aggregate.schema);
            let schema = schema.with_functional_dependencies(FunctionalDependencies::new(vec![key]))?;
            aggregate.schema = Arc::new(schema);
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        other => Ok(Transformed::yes(other)),
    });
    keyed.data()
}

/// Whether DataFusion says that some of what an aggregate groups by determines the rest, though before there may be
/// several rows of it.
fn has_wrong_key(aggregate: &Aggregate) -> bool {
    let some = |key: &FunctionalDependence| key.source_indices.len() < aggregate.group_expr.len();
    let keys = aggregate.schema.functional_dependencies();
    if !keys.iter().any(some) {
        return false;
    }
    let (before, after) = (aggregate.input.schema().field_names(), aggregate.schema.field_names());
    let columns = |key: &FunctionalDependence, names: &[String]| -> BTreeSet<String> {
        key.source_indices.iter().map(|place| names[*place].clone()).collect()
    };
    let unique = aggregate.input.schema().functional_dependencies().iter();
    let unique = unique.filter(|key| key.mode == Dependency::Single).map(|key| columns(key, &before));
    let unique: Vec<BTreeSet<String>> = unique.collect();
    keys.iter().filter(|key| some(key)).any(|key| !unique.contains(&columns(key, &after)))
}

/// The optimized plan of an analyzed one.
pub fn optimized(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    if is_of_one_table(&plan)
        && let Ok(short) = &*SHORT
    {
        let mut options = ConfigOptions::clone(state.config_options());
        options.optimizer.max_passes = 1;
        let plan = short.optimize(plan, &OnePass { state, options: Arc::new(options) }, |_, _| {})?;
        return marked(named_only(plan)?);
    }
    let by_all_rules = |plan| marked(named_only(state.optimizer().optimize(plan, state, |_, _| {})?)?);
    numbered(equal_parts_once(with_filtered_parts_once(plan, &by_all_rules)?)?)
}

/// An optimized plan as it is for this snapshot: what is done depends on the sizes of tables and on what the store accepts.
/// It comes after all other rules, so that nothing is pushed into what it has changed.
pub fn fitted(plan: LogicalPlan, snapshot: &dyn Snapshot) -> Result<LogicalPlan> {
    prefix::narrowed(eager_aggregate::pushed(plan, snapshot)?, snapshot)
}

/// Whether a plan is a chain of usual nodes over one scan, or over none, whose expressions hold nothing that becomes
/// nodes of its own.
fn is_of_one_table(plan: &LogicalPlan) -> bool {
    let plain = is_plain(plan) || matches!(plan, LogicalPlan::Window(_));
    plain && !holds_nodes(plan) && plan.inputs().into_iter().all(is_of_one_table)
}

/// Whether a node is one of those that a SELECT from one table, or from none, without windows has.
pub fn is_plain(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. })
    )
}

/// Whether subqueries or aggregates of distinct values are among the expressions.
fn holds_nodes(node: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = node.apply_expressions(|expr| {
        expr.apply(|part| {
            found |= match part {
                Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => true,
                Expr::AggregateFunction(call) => call.params.distinct,
                _ => false,
            };
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || looked.is_err()
}

/// The state's settings, but for the number of passes.
struct OnePass<'a> {
    state: &'a SessionState,
    options: Arc<ConfigOptions>,
}

impl OptimizerConfig for OnePass<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.state.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.state.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(&self.options)
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.state)
    }
}

#[cfg(test)]
mod tests {
    use keyspan_model::{ColumnType, Value};

    use super::*;
    use crate::binder::{analyzed, plan_query};
    use crate::testing::{Bench, Rows, parse};

    fn bench() -> Bench {
        let columns = [
            ("host", ColumnType::Text, 'p'),
            ("at", ColumnType::Timestamp, 'd'),
            ("v", ColumnType::Double, '-'),
            ("n", ColumnType::Int, '-'),
        ];
        let row = vec![Value::Text("a".into()), Value::Timestamp(0), Value::Double(1.0), Value::Int(2)];
        let mut rows = Rows::default();
        rows.create("readings", &columns, vec![row]);
        Bench::new(rows)
    }

    fn analyzed_plan(bench: &Bench, sql: &str) -> (LogicalPlan, SessionState) {
        let engine = bench.session.engine();
        let state = engine.statement(&bench.context);
        let planned =
            plan_query(engine.options.parser, &state, &parse(sql).expect("parses"), &bench.context).expect("plans");
        (analyzed(&state, &planned.plan).expect("types"), state)
    }

    #[test]
    fn a_rule_that_is_not_there_is_an_error() {
        assert!(super::rules().is_ok());
        let refused = super::place_of("push_down_nothing", ["push_down_filter"].into_iter()).expect_err("no such rule");
        assert_eq!(refused.sqlstate(), "XX000");
    }

    #[test]
    fn every_rule_of_one_table_is_there() {
        let found: Vec<&str> =
            SHORT.as_ref().expect("every rule is there").rules.iter().map(|rule| rule.name()).collect();
        assert_eq!(found, OF_ONE_TABLE);
    }

    #[tokio::test]
    async fn one_pass_makes_the_plan_that_all_passes_make() {
        let bench = bench();
        for sql in [
            "SELECT * FROM readings WHERE host = 'a' AND at >= '2024-01-01' AND n > 1 + 1",
            "SELECT at FROM readings WHERE host IN ('a', 'a', 'b') ORDER BY v DESC LIMIT 3",
            "SELECT host FROM (SELECT * FROM readings WHERE n > 1 LIMIT 10) r WHERE v > 2 LIMIT 3 OFFSET 1",
            "SELECT host FROM (SELECT host, n + 1 AS more FROM readings) r WHERE more = 3 ORDER BY host LIMIT 2",
            "SELECT DISTINCT host FROM readings WHERE NOT (n < 3 OR v IS NULL)",
            "SELECT DISTINCT ON (host) * FROM readings ORDER BY host, at DESC",
            "SELECT host, count(n), 1 FROM readings GROUP BY 1, 3 HAVING count(n) > 2 ORDER BY 1, 1",
            "SELECT date_trunc('hour', at) AS hour, max(v) FROM readings WHERE host = 'a' GROUP BY hour ORDER BY hour DESC LIMIT 5",
            "SELECT host, row_number() OVER (PARTITION BY host ORDER BY at) FROM readings WHERE n = 1 AND n = 1",
            "SELECT * FROM (SELECT host, row_number() OVER (PARTITION BY host ORDER BY at) AS r FROM readings) q WHERE r < 3",
            "SELECT n FROM readings WHERE n = 1 AND n = 2 LIMIT 4",
            "SELECT n FROM readings WHERE true AND n BETWEEN 1 AND 3 LIMIT 0",
        ] {
            let (plan, state) = analyzed_plan(&bench, sql);
            assert!(is_of_one_table(&plan), "{sql}");
            let once = optimized(plan.clone(), &state).expect("optimizes").display_indent_schema().to_string();
            let all = state.optimizer().optimize(plan, &state, |_, _| {}).expect("optimizes");
            assert_eq!(once, all.display_indent_schema().to_string(), "{sql}");
        }
    }

    #[tokio::test]
    async fn what_holds_other_plans_goes_through_all_rules() {
        let bench = bench();
        for sql in [
            "SELECT * FROM readings WHERE n = (SELECT max(n) FROM readings)",
            "SELECT * FROM readings WHERE n IN (SELECT n FROM readings)",
            "SELECT * FROM readings WHERE EXISTS (SELECT 1 FROM readings)",
            "SELECT a.n FROM readings a JOIN readings b USING (host)",
            "SELECT host, count(DISTINCT n) FROM readings GROUP BY host",
            "SELECT n FROM readings UNION ALL SELECT n FROM readings",
        ] {
            assert!(!is_of_one_table(&analyzed_plan(&bench, sql).0), "{sql}");
        }
    }
}
