<?php
// What Laravel's programs do with Eloquent and its schema builder.

require_once 'Illuminate/Database/autoload.php';
require_once __DIR__ . '/expect.php';

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Eloquent\SoftDeletes;
use Illuminate\Database\QueryException;

$db = new DB;
$db->addConnection([
    'driver' => 'pgsql', 'host' => '127.0.0.1', 'port' => getenv('KEYSPAN_PORT'), 'database' => 'keyspan',
    'username' => 'laravel', 'password' => '', 'charset' => 'utf8', 'schema' => 'public',
]);
$db->setAsGlobal();
$db->bootEloquent();
DB::statement("SET write_semantics = 'postgres'");
DB::statement("SET foreign_keys = 'not enforced'");

$schema = DB::schema();
$schema->create('users', function ($table) {
    $table->id();
    $table->string('name');
    $table->string('email')->unique();
    $table->timestamp('email_verified_at')->nullable();
    $table->rememberToken();
    $table->timestamps();
});
$schema->create('posts', function ($table) {
    $table->bigIncrements('id');
    $table->foreignId('user_id')->constrained()->onDelete('cascade');
    $table->string('title', 100)->index();
    $table->enum('status', ['draft', 'live'])->default('draft');
    $table->decimal('price', 8, 2)->default(0);
    $table->boolean('active')->default(true);
    $table->jsonb('extra')->nullable();
    $table->date('published_on')->nullable();
    $table->unsignedInteger('views')->default(0);
    $table->softDeletes();
    $table->timestamps();
    $table->unique(['user_id', 'title']);
});
$schema->create('tags', fn ($table) => [$table->increments('id'), $table->string('name')]);
$schema->create('post_tag', function ($table) {
    $table->unsignedBigInteger('post_id');
    $table->unsignedInteger('tag_id');
    $table->primary(['post_id', 'tag_id']);
});
$schema->create('jobs', function ($table) {
    $table->id();
    $table->string('queue')->index();
    $table->longText('payload');
    $table->unsignedInteger('reserved_at')->nullable();
});

class User extends Model
{
    protected $guarded = [];

    public function posts()
    {
        return $this->hasMany(Post::class);
    }
}

class Post extends Model
{
    use SoftDeletes;
    protected $guarded = [];
    protected $casts = ['extra' => 'array', 'active' => 'boolean'];

    public function tags()
    {
        return $this->belongsToMany(Tag::class);
    }
}

class Tag extends Model
{
    public $timestamps = false;
    protected $guarded = [];
}

$ann = User::create(['name' => 'Ann', 'email' => 'ann@example.org']);
$bob = User::create(['name' => 'Bob', 'email' => 'bob@example.org']);
for ($n = 0; $n < 10; $n++) {
    ($n % 2 ? $bob : $ann)->posts()->create([
        'title' => "P$n", 'price' => $n, 'views' => $n, 'status' => $n % 3 ? 'live' : 'draft',
        'extra' => ['n' => $n, 'tags' => ['t' . $n % 4]], 'published_on' => date('Y-m-d', 1704067200 + 86400 * $n),
    ]);
}

// Reads.
expect('where', ['P8', 'P7'], Post::where('status', 'live')->where('price', '>', 5)->latest('price')->pluck('title')->all());
expect('json', ['P3'], Post::where('extra->n', 3)->pluck('title')->all());
expect('json contains', 3, Post::whereJsonContains('extra->tags', 't1')->count());
expect('eager', [5, 5], User::with('posts')->orderBy('id')->get()->map(fn ($user) => $user->posts->count())->all());
expect('counts', [3, 3], User::withCount(['posts as live' => fn ($query) => $query->where('status', 'live')])
    ->orderBy('id')->pluck('live')->all());
expect('sums', [20, 25], User::withSum('posts', 'price')->orderBy('id')->pluck('posts_sum_price')->all());
expect('where has', ['Bob'], User::whereHas('posts', fn ($query) => $query->where('title', 'P3'))->pluck('name')->all());
$last = Post::select('title')->whereColumn('user_id', 'users.id')->orderByDesc('id')->limit(1);
expect('subselect', ['P8', 'P9'], User::addSelect(['last' => $last])->orderBy('id')->pluck('last')->all());
expect('dates', [1, 10, 4], [Post::whereDate('published_on', '2024-01-03')->count(), Post::whereMonth('published_on', 1)
    ->count(), Post::whereBetween('published_on', ['2024-01-02', '2024-01-05'])->count()]);
$seen = 0;
Post::chunkById(3, function ($posts) use (&$seen) {
    $seen += count($posts);
});
expect('chunks', 10, $seen);

// Writes.
$again = ['name' => 'Ann again', 'email' => 'ann@example.org'];
expect('unique', QueryException::class, failure(fn () => User::create($again)));
User::upsert([$again], ['email'], ['name']);
expect('upsert', 'Ann again', $ann->fresh()->name);
expect('ignore', 0, DB::table('users')->insertOrIgnore([$again]));
$of_bob = DB::table('posts')->join('users', 'users.id', '=', 'posts.user_id')->where('users.name', 'Bob');
expect('update with join', 5, $of_bob->update(['posts.views' => 7]));
expect('update with limit', 2, Post::where('status', 'live')->orderBy('id')->limit(2)->update(['views' => 100]));
Post::where('title', 'P3')->update(['extra->n' => 99]);
expect('update of json', ['n' => 99, 'tags' => ['t3']], Post::where('title', 'P3')->first()->extra);
$post = Post::first();
$post->tags()->sync([Tag::create(['name' => 'php'])->id, Tag::create(['name' => 'db'])->id]);
expect('tags', ['db', 'php'], $post->tags()->orderBy('name')->pluck('name')->all());
$post->delete();
expect('soft delete', [9, 10], [Post::count(), Post::withTrashed()->count()]);
expect('delete with join', 4, $of_bob->where('title', '<>', 'P9')->delete());

// Transactions.
$fails = fn () => DB::connection()->transaction(function () {
    User::create(['name' => 'Gone', 'email' => 'gone@example.org']);
    throw new LogicException('undo');
});
expect('rollback', [LogicException::class, false], [failure($fails), User::where('name', 'Gone')->exists()]);
DB::table('jobs')->insert([['queue' => 'mail', 'payload' => 'a'], ['queue' => 'mail', 'payload' => 'b']]);
$job = DB::connection()->transaction(function () {
    $job = DB::table('jobs')->lock('FOR UPDATE SKIP LOCKED')->where('queue', 'mail')->whereNull('reserved_at')
        ->orderBy('id')->first();
    DB::table('jobs')->where('id', $job->id)->update(['reserved_at' => time()]);
    return $job;
});
expect('queue', ['a', 1], [$job->payload, DB::table('jobs')->whereNotNull('reserved_at')->count()]);

// Migrations.
$schema->table('posts', fn ($table) => $table->string('slug')->nullable());
$schema->table('posts', fn ($table) => $table->renameColumn('slug', 'permalink'));
$schema->table('posts', fn ($table) => $table->dropColumn('permalink'));
$schema->table('posts', fn ($table) => $table->string('title', 200)->nullable()->change());
$schema->table('posts', fn ($table) => $table->dropUnique(['user_id', 'title']));
$schema->table('posts', fn ($table) => $table->dropForeign(['user_id']));
expect('has', [true, false], [$schema->hasColumn('posts', 'title'), $schema->hasColumn('posts', 'permalink')]);
$schema->rename('tags', 'labels');
$schema->dropAllTables();
expect('tables', [], $schema->getAllTables());
