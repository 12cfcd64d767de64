-- The orders as a table of MariaDB and MySQL. How safe a write is, is a setting of the server:
-- --node-settings=innodb_flush_log_at_trx_commit:2 syncs once a second, as translog.durability=async does.
CREATE TABLE `{{ index_prefix }}ingest` (
  order_id CHAR(18) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  user_id VARCHAR(16) CHARACTER SET ascii NOT NULL,
  merchant_id VARCHAR(16) CHARACTER SET ascii NOT NULL,
  status VARCHAR(16) NOT NULL,
  amount DECIMAL(12, 2) NOT NULL,
  created_at DATETIME NOT NULL,
  note TEXT NOT NULL,
  KEY user_id (user_id),
  KEY merchant_id (merchant_id),
  KEY created_at (created_at)
) ENGINE = InnoDB;
