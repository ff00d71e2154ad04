DROP TABLE processing_jobs;
