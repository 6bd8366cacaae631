<?php
// What programs do with Doctrine's DBAL: schemas compared with what a server has, typed errors, transactions.

require_once 'Doctrine/DBAL/autoload.php';
require_once __DIR__ . '/expect.php';

use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Exception;
use Doctrine\DBAL\Schema\Schema;

$connection = DriverManager::getConnection([
    'driver' => 'pdo_pgsql', 'host' => '127.0.0.1', 'port' => getenv('KEYSPAN_PORT'), 'dbname' => 'keyspan',
    'user' => 'symfony', 'password' => '',
]);
$connection->executeStatement("SET write_semantics = 'postgres'");
$connection->executeStatement("SET foreign_keys = 'not enforced'");
$platform = $connection->getDatabasePlatform();
$manager = $connection->createSchemaManager();

function wanted(): Schema
{
    $schema = new Schema();
    $customers = $schema->createTable('customers');
    $customers->addColumn('id', 'integer', ['autoincrement' => true]);
    $customers->addColumn('name', 'string', ['length' => 80]);
    $customers->addColumn('email', 'string', ['length' => 180, 'notnull' => false, 'comment' => 'the mail']);
    $customers->addColumn('created_at', 'datetime_immutable');
    $customers->addColumn('born', 'date', ['notnull' => false]);
    $customers->addColumn('data', 'json', ['notnull' => false]);
    $customers->addColumn('active', 'boolean', ['default' => true]);
    $customers->addColumn('guid', 'guid', ['notnull' => false]);
    $customers->addColumn('balance', 'decimal', ['precision' => 10, 'scale' => 2, 'default' => 0]);
    $customers->addColumn('zoned', 'datetimetz', ['notnull' => false]);
    $customers->addColumn('file', 'blob', ['notnull' => false]);
    $customers->setPrimaryKey(['id']);
    $customers->addUniqueIndex(['email'], 'of_mail');
    $customers->addIndex(['name'], 'of_name');
    $orders = $schema->createTable('orders');
    $orders->addColumn('id', 'bigint', ['autoincrement' => true]);
    $orders->addColumn('customer_id', 'integer');
    $orders->addColumn('total', 'decimal', ['precision' => 12, 'scale' => 2]);
    $orders->setPrimaryKey(['id']);
    $orders->addIndex(['customer_id'], 'of_customer');
    $orders->addForeignKeyConstraint('customers', ['customer_id'], ['id'], ['onDelete' => 'CASCADE'], 'to_customer');
    return $schema;
}

// What a schema needs beyond what the server has; PostgreSQL's own schema is always in it.
function changes(Schema $schema): array
{
    global $manager, $platform;
    $difference = $manager->createComparator()->compareSchemas($manager->introspectSchema(), $schema);
    $changes = $platform->getAlterSchemaSQL($difference);
    return array_values(array_filter($changes, fn ($sql) => !str_contains($sql, 'CREATE SCHEMA')));
}

foreach (wanted()->toSql($platform) as $statement) {
    $connection->executeStatement($statement);
}
expect('a migration of nothing', [], changes(wanted()));

// Errors have their class.
$ann = ['name' => 'Ann', 'email' => 'ann@example.org', 'created_at' => '2024-01-02 03:04:05'];
$connection->insert('customers', $ann);
expect('id', 1, $connection->lastInsertId());
$classes = [
    Exception\UniqueConstraintViolationException::class => fn () => $connection->insert('customers', $ann),
    Exception\NotNullConstraintViolationException::class => fn () => $connection->insert('customers', ['email' => 'b']),
    Exception\TableNotFoundException::class => fn () => $connection->fetchOne('SELECT * FROM nothing'),
    Exception\InvalidFieldNameException::class => fn () => $connection->fetchOne('SELECT nothing FROM customers'),
    Exception\SyntaxErrorException::class => fn () => $connection->fetchOne('SELEC'),
];
foreach ($classes as $class => $call) {
    expect('error', $class, failure($call));
}

// Values.
$connection->update('customers', ['balance' => '5.50', 'active' => false, 'file' => "\x00\xff"], ['id' => 1],
    ['active' => 'boolean', 'file' => 'binary']);
$row = $connection->fetchAssociative('SELECT active, balance, created_at, file FROM customers');
expect('values', [false, '5.50', '2024-01-02 03:04:05', '00ff'],
    [$row['active'], $row['balance'], $row['created_at'], bin2hex(stream_get_contents($row['file']))]);
$query = $connection->createQueryBuilder()->select('c.name', 'count(o.id) AS orders')->from('customers', 'c')
    ->leftJoin('c', 'orders', 'o', 'o.customer_id = c.id')->groupBy('c.name')->having('count(o.id) >= :least')
    ->setParameter('least', 0);
expect('builder', [['name' => 'Ann', 'orders' => 0]], $query->executeQuery()->fetchAllAssociative());

// Transactions inside of each other are savepoints.
$connection->setNestTransactionsWithSavepoints(true);
$connection->beginTransaction();
$connection->insert('orders', ['customer_id' => 1, 'total' => 5]);
$connection->beginTransaction();
$connection->insert('orders', ['customer_id' => 1, 'total' => 6]);
$connection->rollBack();
$connection->commit();
expect('orders', ['5.00'], $connection->fetchFirstColumn('SELECT total FROM orders'));

// A migration, and nothing is left of it.
$next = wanted();
$customers = $next->getTable('customers');
$customers->addColumn('nick', 'string', ['length' => 20, 'notnull' => false]);
$customers->changeColumn('name', ['length' => 120]);
$customers->changeColumn('balance', ['precision' => 14, 'scale' => 3]);
$customers->dropColumn('guid');
$customers->dropIndex('of_name');
$customers->addIndex(['name', 'born'], 'of_both');
foreach (changes($next) as $statement) {
    $connection->executeStatement($statement);
}
expect('a migration twice', [], changes($next));
$manager->renameTable('orders', 'purchases');
$manager->createSequence(new Doctrine\DBAL\Schema\Sequence('numbers', 5, 100));
expect('sequence', [100, 105], [$connection->fetchOne($platform->getSequenceNextValSQL('numbers')),
    $connection->fetchOne($platform->getSequenceNextValSQL('numbers'))]);
