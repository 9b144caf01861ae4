"""CloudWatch metrics of EBS volumes, EC2 instances and RDS databases: JSON of ``aws cloudwatch``, and CSV."""
