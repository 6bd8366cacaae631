# What Rails programs do with ActiveRecord: migrations, reflection, models, transactions.

require "active_record"
require "minitest/autorun"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: "127.0.0.1", port: ENV.fetch("KEYSPAN_PORT"), username: "rails", database: "keyspan",
  variables: { write_semantics: "postgres", foreign_keys: "not enforced", client_min_messages: "warning" }
)
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define(version: 2024_01_01_000000) do
  enable_extension "plpgsql"
  enable_extension "pgcrypto"
  create_table :authors do |t|
    t.string :name, null: false, limit: 80
    t.string :email
    t.integer :posts_count, default: 0
    t.timestamps
    t.index :email, unique: true
  end
  create_table :posts do |t|
    t.references :author, null: false, foreign_key: true
    t.string :title
    t.integer :status, default: 0
    t.decimal :price, precision: 10, scale: 2
    t.date :published_on
    t.jsonb :meta, default: {}
    t.string :labels, array: true, default: []
    t.float :score
    t.timestamps
  end
  create_table(:comments) { |t| t.references :commentable, polymorphic: true; t.text :body }
  create_table(:tags) { |t| t.string :name }
  create_join_table :posts, :tags, table_name: :taggings
  create_table :things, id: :uuid do |t|
    t.binary :bytes
    t.inet :ip
    t.time :at
    t.datetime :stamp, precision: 6
    t.interval :length
  end
end

class Author < ActiveRecord::Base
  has_many :posts, dependent: :destroy
  validates :email, uniqueness: true
end

class Post < ActiveRecord::Base
  belongs_to :author, counter_cache: true
  has_many :comments, as: :commentable
  has_and_belongs_to_many :tags, join_table: :taggings
  enum status: %i[draft live archived]
end

class Comment < ActiveRecord::Base
  belongs_to :commentable, polymorphic: true
end

class Tag < ActiveRecord::Base
end

class Thing < ActiveRecord::Base
  attribute :length, :interval
end

class ActiveRecordTest < Minitest::Test
  def connection = ActiveRecord::Base.connection

  def setup
    [Comment, Post, Author, Tag, Thing].each { |model| connection.truncate(model.table_name) }
    connection.truncate("taggings")
    @ann = Author.create!(name: "Ann", email: "ann@example.org")
    @bob = Author.create!(name: "Bob", email: "bob@example.org")
    10.times do |n|
      author = n.even? ? @ann : @bob
      author.posts.create!(title: "P#{n}", price: n, score: n * 0.5, published_on: Date.new(2024, 1, 1) + n,
                           status: n % 3, labels: ["even #{n % 2}"], meta: { n: n })
    end
  end

  def test_the_schema_is_what_the_migration_says
    columns = Post.columns.to_h { |column| [column.name, column.sql_type] }
    assert_equal %w[bigint numeric(10,2) date jsonb], columns.values_at("author_id", "price", "published_on", "meta")
    assert_equal [["index_authors_on_email", ["email"], true]],
                 connection.indexes(:authors).map { |index| [index.name, index.columns, index.unique] }
    assert_equal [["posts", "authors"]], connection.foreign_keys("posts").map { |key| [key.from_table, key.to_table] }
    assert_includes connection.extensions, "pgcrypto"
    dump = StringIO.new
    ActiveRecord::SchemaDumper.dump(connection, dump)
    assert_includes dump.string, 't.jsonb "meta", default: {}'
    assert_includes dump.string, 'add_foreign_key "posts", "authors"'
  end

  def test_queries
    assert_equal ["P7"], Post.where(status: :live).where("price > ?", 5).order(price: :desc).limit(1).pluck(:title)
    assert_equal({ "draft" => 4, "live" => 3, "archived" => 3 }, Post.group(:status).count)
    assert_equal [["Ann", 5], ["Bob", 5]],
                 Author.left_outer_joins(:posts).group("authors.id").order(:id).pluck("authors.name", "count(posts.id)")
    assert_equal ["Bob"], Author.eager_load(:posts).order("posts.price DESC").limit(1).map(&:name)
    assert_equal ["P3"], Post.where("meta @> ?", { n: 3 }.to_json).pluck(:title)
    assert_equal 5, Post.where("'even 1' = ANY(labels)").count
    assert_equal 4, Post.where(published_on: Date.new(2024, 1, 3)..Date.new(2024, 1, 6)).count
    assert_equal [45, 2.25, Date.new(2024, 1, 1)], [Post.sum(:price), Post.average(:score), Post.minimum(:published_on)]
    assert_equal 2, Author.where(id: Post.where(status: 1).select(:author_id)).count
    assert_equal 10, Post.find_each(batch_size: 3).count
  end

  def test_writes
    refute Author.new(name: "Other", email: "ann@example.org").valid?
    now = Time.now
    again = { name: "Ann again", email: "ann@example.org", created_at: now, updated_at: now }
    assert_raises(ActiveRecord::RecordNotUnique) { Author.insert!(again) }
    assert_raises(ActiveRecord::NotNullViolation) { Author.insert!({ created_at: now, updated_at: now }) }
    Author.upsert_all([again], unique_by: :email)
    assert_equal ["Ann again", 5], [@ann.reload.name, @ann.posts_count]
    assert_equal 5, Post.joins(:author).where(authors: { name: "Bob" }).update_all(score: 9)
    assert_equal 1, Post.where(title: "P9").delete_all
    @bob.destroy
    assert_equal 5, Post.count
    post = Post.first
    post.tags << [Tag.create!(name: "ruby"), Tag.create!(name: "db")]
    assert_equal [post], Post.joins(:tags).where(tags: { name: "db" })
    post.comments.create!(body: "hello")
    assert_equal post, Comment.first.commentable
  end

  def test_transactions
    Author.transaction do
      Author.create!(name: "Outer", email: "outer@example.org")
      Author.transaction(requires_new: true) do
        Author.create!(name: "Inner", email: "inner@example.org")
        raise ActiveRecord::Rollback
      end
    end
    assert_equal [true, false], %w[Outer Inner].map { |name| Author.exists?(name: name) }
    @ann.with_lock { @ann.update!(name: "Locked") }
    assert_equal "Locked", @ann.reload.name
    assert connection.get_advisory_lock(42)
    assert connection.release_advisory_lock(42)
  end

  def test_types
    stamp = Time.utc(2024, 1, 2, 3, 4, 5, 678_901)
    id = Thing.create!(bytes: "\x00\xff".b, ip: "10.0.0.1", at: "12:34", stamp: stamp, length: 90.minutes).id
    thing = Thing.find(id)
    assert_equal ["\x00\xff".b, "10.0.0.1", "12:34", stamp, 5400],
                 [thing.bytes, thing.ip.to_s, thing.at.strftime("%H:%M"), thing.stamp, thing.length.to_i]
  end

  def test_migrations
    connection.create_table(:old) { |t| t.string :a; t.float :b }
    connection.add_column :old, :views, :integer, default: 7, null: false
    connection.rename_column :old, :views, :hits
    connection.change_column :old, :b, :decimal, precision: 12, scale: 3
    connection.add_index :old, %i[a b], order: { b: :desc }, name: "of_old"
    connection.rename_index :old, "of_old", "of_both"
    connection.add_check_constraint :old, "b >= 0", name: "positive"
    connection.change_table_comment :old, "soon new"
    connection.rename_table :old, :new
    assert_equal %w[id a b hits], connection.columns(:new).map(&:name)
    assert_equal ["new_pkey"], connection.select_values("SELECT conname FROM pg_constraint WHERE contype = 'p'
      AND conrelid = 'new'::regclass")
    assert_equal ["soon new", true, ["positive"]],
                 [connection.table_comment("new"), connection.index_name_exists?(:new, "of_both"),
                  connection.check_constraints(:new).map(&:name)]
    connection.drop_table :new
  end
end
