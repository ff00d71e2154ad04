DROP TABLE module_stores;
