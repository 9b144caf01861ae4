"""What databases, and the monitoring of a cloud, count: InnoDB, SHOW STATUS, views of PostgreSQL, AWR, CloudWatch."""
