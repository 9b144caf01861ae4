"""What databases, and the monitoring of a cloud, count: InnoDB, SHOW STATUS, PostgreSQL, AWR, CloudWatch."""
