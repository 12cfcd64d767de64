-- The orders as a table of MariaDB and MySQL, with the indexes that a back office would give it.
CREATE TABLE `{{ index_prefix }}order-analytics` (
  order_id CHAR(18) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  user_id VARCHAR(16) CHARACTER SET ascii NOT NULL,
  merchant_id VARCHAR(16) CHARACTER SET ascii NOT NULL,
  status VARCHAR(16) NOT NULL,
  channel VARCHAR(16) NOT NULL,
  city VARCHAR(32) NOT NULL,
  amount DECIMAL(12, 2) NOT NULL,
  created_at DATETIME NOT NULL,
  note TEXT NOT NULL,
  KEY user_id (user_id),
  KEY merchant_id (merchant_id),
  KEY created_at (created_at)
) ENGINE = InnoDB;
